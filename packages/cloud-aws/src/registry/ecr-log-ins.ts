import { defined, Secret } from "@kip/base";
import { CloudError, type RegistryLogIn, type RegistryLogIns } from "@kip/cloud";
import type { ECRClientConfig } from "@aws-sdk/client-ecr";
import { sendUntilAborted, timeLimits } from "../connection.ts";
import { cloudErrorOf } from "../errors/cloud-error-of.ts";
import { partitionOf } from "../partition.ts";
import { readEcrHost, type EcrHost } from "./ecr-host.ts";

/** Connection options for ECR. */
export interface EcrOptions {
  /** Kip's own region. Registries of its partition get logins, in any region. */
  readonly region: string;
  /** @default the SDK's chain, as for EC2 */
  readonly credentials?:
    { readonly accessKeyId: string; readonly secretAccessKey: string } | undefined;
  /** URL of the ECR API in all regions. @default those of the regions */
  readonly endpointURL?: string | undefined;
}

/** The only ECR action that this driver calls. */
export const ecrAction = "GetAuthorizationToken";

const requestLimitMs = 20_000;
const connectionLimitMs = 3000;

/**
 * Logins for private ECR registries with kip's own identity, valid for twelve hours. A login works for all registries of a
 * region from which this identity may pull. Callers cache the logins; this class does not. The first login loads the SDK of
 * ECR.
 */
export class EcrLogIns implements RegistryLogIns {
  readonly #options: EcrOptions;

  constructor(options: EcrOptions) {
    this.#options = options;
  }

  async registryLogIn(host: string, signal?: AbortSignal): Promise<RegistryLogIn | undefined> {
    signal?.throwIfAborted();
    const ecr = readEcrHost(host);
    if (ecr?.partition !== partitionOf(this.#options.region)) return undefined;
    const sdk = await import("@aws-sdk/client-ecr");
    const client = new sdk.ECRClient(this.#config(ecr));
    const purpose = `log in to registry "${host}"`;
    try {
      const command = new sdk.GetAuthorizationTokenCommand({});
      const answer = await sendUntilAborted(
        async (options) => await client.send(command, options),
        signal,
      );
      const { authorizationToken = "", expiresAt } = answer.authorizationData?.[0] ?? {};
      const [, username = "", password = ""] =
        /^([^:]+):(.+)$/s.exec(Buffer.from(authorizationToken, "base64").toString()) ?? [];
      if (password === "")
        throw new CloudError("CLOUD_UNKNOWN", `Cannot ${purpose}: the answer has no token`);
      return defined({
        username,
        password: new Secret(password),
        expiresAt: expiresAt?.toISOString(),
      });
    } catch (cause) {
      signal?.throwIfAborted();
      if (CloudError.is(cause)) throw cause;
      throw cloudErrorOf(cause, { purpose, service: "ecr", action: ecrAction });
    } finally {
      client.destroy();
    }
  }

  #config({ region, isFips, isDualStack }: EcrHost): ECRClientConfig {
    const { credentials, endpointURL } = this.#options;
    return defined({
      region,
      credentials,
      endpoint: endpointURL,
      ...(endpointURL === undefined && {
        useFipsEndpoint: isFips,
        useDualstackEndpoint: isDualStack,
      }),
      requestHandler: timeLimits(requestLimitMs, connectionLimitMs),
    });
  }
}
