import { defined } from "@kip/base";
import { configError, readConfigFile, readConfigText } from "../config/read-provider-config.ts";
import { KipError } from "../errors.ts";

/** The settings with which a command reaches AWS. */
export interface AwsSettings {
  readonly environment: NodeJS.ProcessEnv;
  readonly region?: string;
  readonly endpointURL?: string;
  readonly credentials?: { readonly accessKeyId: string; readonly secretAccessKey: string };
}

/**
 * Finds the settings for a command that a person runs. The option's region takes precedence over the environment's, and that
 * over the file's.
 *
 * @param options.purpose what the command does, to complete "Cannot …" in errors
 * @throws {KipError} `CONFIG_INVALID` if the file has problems, or is for another cloud
 */
export async function awsSettings(options: {
  readonly region: string | undefined;
  readonly file: string | undefined;
  readonly purpose: string;
}): Promise<AwsSettings> {
  const { region, file, purpose } = options;
  const environment = defined({ ...process.env, AWS_REGION: region ?? process.env["AWS_REGION"] });
  if (file === undefined) return { environment };
  const { config, problems } = readConfigText(await readConfigFile(file));
  if (!config) throw configError(file, problems);
  if (config.cloud.name !== "aws")
    throw new KipError("CONFIG_INVALID", `Cannot ${purpose}: "${file}" has no cloud.aws`, {
      remedy: "Give a provider.yaml for AWS, or leave out --provider-config",
    });
  const { accessKeyID: accessKeyId, secretAccessKey, endpointURL, ...aws } = config.cloud.aws;
  const hasKeys = accessKeyId !== undefined && secretAccessKey !== undefined;
  return defined({
    environment,
    region: aws.region,
    endpointURL,
    credentials: hasKeys ? { accessKeyId, secretAccessKey } : undefined,
  });
}
