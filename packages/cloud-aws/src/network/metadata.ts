import { systemClock, withTimeout, type Clock } from "@kip/base";

/** What an EC2 machine knows about itself. */
export interface InstanceMetadata {
  /** Content of a path below `latest/meta-data/`. Undefined if there is no such entry, or no metadata service. */
  get(path: string): Promise<string | undefined>;
}

const limitMs = 2000;
const tokenSeconds = "300";

/**
 * The instance metadata service, version 2 only: asks for the session token first.
 *
 * @param environment `AWS_EC2_METADATA_SERVICE_ENDPOINT` and `AWS_EC2_METADATA_DISABLED`, as in the SDK
 */
export function openMetadata(
  environment: Readonly<Record<string, string | undefined>> = {},
  clock: Clock = systemClock,
): InstanceMetadata {
  const {
    AWS_EC2_METADATA_SERVICE_ENDPOINT: endpoint = "http://169.254.169.254",
    AWS_EC2_METADATA_DISABLED: disabled = "false",
  } = environment;
  let token: Promise<string | undefined> | undefined;
  const ask = async (path: string, init: RequestInit): Promise<string | undefined> => {
    const url = new URL(`latest/${path}`, endpoint.endsWith("/") ? endpoint : `${endpoint}/`);
    try {
      return await withTimeout(
        async (signal) => {
          const answer = await fetch(url, { ...init, signal, redirect: "error" });
          const text = await answer.text();
          return answer.ok ? text.trim() : undefined;
        },
        { limitMs, clock },
      );
    } catch {
      return undefined; // not an EC2 machine
    }
  };
  return {
    get: async (path) => {
      if (disabled.toLowerCase() === "true") return undefined;
      token ??= ask("api/token", {
        method: "PUT",
        headers: { "x-aws-ec2-metadata-token-ttl-seconds": tokenSeconds },
      });
      const session = await token;
      if (session === undefined) return undefined;
      return await ask(`meta-data/${path}`, { headers: { "x-aws-ec2-metadata-token": session } });
    },
  };
}
