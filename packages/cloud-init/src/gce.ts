import { maxUserDataBytes } from "./config/cloud-config.ts";
import { CloudInitError } from "./errors.ts";
import type { DataSource, InstanceData } from "./instance-data.ts";
import {
  endingTogether,
  hasAnswer,
  MetadataHttp,
  type MetadataHttpOptions,
} from "./metadata-http.ts";

const gceBaseUrl = "http://metadata.google.internal";
const prefix = "/computeMetadata/v1/instance/";

interface ReadOptions {
  readonly signal: AbortSignal;
  readonly maxBytes?: number | undefined;
  readonly attempts?: number | undefined;
}

/**
 * User data and metadata from GCE's metadata server. User data is the attribute `user-data`, in base64 if `user-data-encoding`
 * says so.
 *
 * @see https://cloud.google.com/compute/docs/metadata/querying-metadata
 */
export function createGceSource(options: Partial<MetadataHttpOptions> = {}): DataSource {
  const http = new MetadataHttp({ ...options, baseUrl: options.baseUrl ?? gceBaseUrl });
  return {
    name: "GCE",
    isAvailable: async (signal) =>
      await hasAnswer(signal, async () => await readText(http, "id", { signal, attempts: 1 })),
    read: async (signal) =>
      await endingTogether(signal, async (shared) => await readInstance(http, shared)),
  };
}

async function readInstance(http: MetadataHttp, signal: AbortSignal): Promise<InstanceData> {
  const text = async (path: string): Promise<string | undefined> => {
    const value = await readText(http, path, { signal });
    return value === "" ? undefined : value;
  };
  const [instanceId, userData, encoding, localHostname, privateIpv4, publicIpv4] =
    await Promise.all([
      text("id"),
      readBytes(http, "attributes/user-data", { signal, maxBytes: 2 * maxUserDataBytes }),
      text("attributes/user-data-encoding"),
      text("hostname"),
      text("network-interfaces/0/ip"),
      text("network-interfaces/0/access-configs/0/external-ip"),
    ]);
  if (instanceId === undefined) throw invalid("there is no instance id");
  return {
    instanceId,
    userData: decodeUserData(userData ?? new Uint8Array(), encoding),
    localHostname,
    publicKeys: [],
    addresses: { privateIpv4, publicIpv4 },
  };
}

function decodeUserData(data: Uint8Array, encoding: string | undefined): Uint8Array {
  if (encoding === undefined) return data;
  if (encoding !== "base64") throw invalid(`user-data-encoding is "${encoding.slice(0, 100)}"`);
  return Buffer.from(Buffer.from(data).toString("latin1"), "base64");
}

async function readText(
  http: MetadataHttp,
  path: string,
  options: ReadOptions,
): Promise<string | undefined> {
  const bytes = await readBytes(http, path, options);
  return bytes && new TextDecoder().decode(bytes).trim();
}

async function readBytes(
  http: MetadataHttp,
  path: string,
  options: ReadOptions,
): Promise<Uint8Array | undefined> {
  const headers = { "metadata-flavor": "Google" };
  const answer = await http.send({ ...options, path: prefix + path, headers });
  // Every response of the metadata server has this header. Without it, another server has this address.
  if (answer.header("metadata-flavor") !== "Google") throw invalid("another server answers for it");
  if (answer.status === 404) return undefined;
  if (answer.status !== 200) throw invalid(`the status of "${path}" is ${answer.status}`);
  return answer.body;
}

function invalid(reason: string): CloudInitError {
  return new CloudInitError("METADATA_INVALID", `Cannot use GCE's metadata server: ${reason}`);
}
