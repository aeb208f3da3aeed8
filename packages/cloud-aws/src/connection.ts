import { defined, untilAborted } from "@kip/base";
import { CloudError } from "@kip/cloud";
import type { InstanceMetadata } from "./network/metadata.ts";

/** Region and credentials from the configuration and the environment. */
export interface ConnectionSettings {
  /**
   * @default `AWS_REGION`, `AWS_DEFAULT_REGION`, or this machine's region. Both variables take precedence over the
   * configuration
   */
  readonly region?: string | undefined;
  /** @default the SDK's chain: environment, shared files, web identity, container, instance profile */
  readonly credentials?:
    { readonly accessKeyId: string; readonly secretAccessKey: string } | undefined;
  readonly environment?: Readonly<Record<string, string | undefined>> | undefined;
}

/** @throws {CloudError} `CLOUD_NOT_FOUND` if none is given */
export async function findRegion(
  { region: configured, environment = {} }: ConnectionSettings,
  metadata: InstanceMetadata,
): Promise<string> {
  const { AWS_REGION: first, AWS_DEFAULT_REGION: second } = environment;
  const named = [first, second, configured].find((each) => each !== undefined && each !== "");
  const region = named ?? (await metadata.get("placement/region"));
  if (region !== undefined) return region;
  throw new CloudError("CLOUD_NOT_FOUND", "Cannot use AWS: no region is given", {
    remedy: "Set cloud.aws.region or AWS_REGION",
  });
}

/** Keys from the environment take precedence over the configuration's, like in the original. */
export function credentialsOf({
  credentials,
  environment = {},
}: ConnectionSettings): ConnectionSettings["credentials"] {
  return (environment["AWS_ACCESS_KEY_ID"] ?? "") === "" ? credentials : undefined;
}

/**
 * Time limits of an SDK client's requests, for its `requestHandler`. Without `throwOnRequestTimeout` the SDK only logs a
 * warning about a request that takes longer.
 *
 * @param requestTimeout for a whole request, milliseconds
 * @param connectionTimeout for connecting, milliseconds
 */
export function timeLimits(requestTimeout: number, connectionTimeout: number) {
  return { requestTimeout, throwOnRequestTimeout: true, connectionTimeout };
}

/**
 * Sends a command by an SDK client, and stops waiting for it when the signal aborts. The SDK checks the signal only after it has
 * credentials, and STS may take a minute for these.
 *
 * @param send calls the client's `send()` with these options
 * @throws errors of `send`; the signal's reason
 */
export async function sendUntilAborted<T>(
  send: (options: { readonly abortSignal?: AbortSignal }) => Promise<T>,
  signal: AbortSignal | undefined,
): Promise<T> {
  return await untilAborted(send(defined({ abortSignal: signal })), signal);
}
