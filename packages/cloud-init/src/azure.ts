import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { isSystemError } from "@kip/base";
import { maxUserDataBytes } from "./config/cloud-config.ts";
import { CloudInitError } from "./errors.ts";
import type { DataSource, InstanceData } from "./instance-data.ts";

/** Folder of Azure's agent. */
const agentDirectory = "/var/lib/waagent";

/** Options of {@link createAzureSource}. */
export interface AzureOptions {
  /** Folder of Azure's agent. @default "/var/lib/waagent" */
  readonly directory?: string | undefined;
  /** File with the machine's ID, used if the agent's files do not have it. @default "/sys/class/dmi/id/product_uuid" */
  readonly machineIdFile?: string | undefined;
}

/**
 * User data and metadata from the files of Azure's agent, which are complete when its file `provisioned` exists. User data is
 * in `CustomData`, or in the element of this name in `ovf-env.xml`. Both may be base64, as Azure transports them. Name, keys
 * and addresses are in `ovf-env.xml` and `SharedConfig.xml`.
 *
 * @see https://learn.microsoft.com/azure/virtual-machines/custom-data
 */
export function createAzureSource(options: AzureOptions = {}): DataSource {
  const { directory = agentDirectory, machineIdFile = "/sys/class/dmi/id/product_uuid" } = options;
  return {
    name: "Azure",
    isAvailable: async () => await Promise.resolve(existsSync(path.join(directory, "provisioned"))),
    read: async () => await readInstance(directory, machineIdFile),
  };
}

async function readInstance(directory: string, machineIdFile: string): Promise<InstanceData> {
  const [customData, environment, shared, machineId] = await Promise.all([
    readAgentFile(path.join(directory, "CustomData")),
    readAgentFile(path.join(directory, "ovf-env.xml")),
    readAgentFile(path.join(directory, "SharedConfig.xml")),
    readAgentFile(machineIdFile),
  ]);
  const ovf = environment?.toString() ?? "";
  const { deployment, instance, addresses } = readSharedConfig(shared?.toString() ?? "");
  const instanceId = deployment ?? machineId?.toString().trim() ?? "";
  if (instanceId === "")
    throw invalid("neither SharedConfig.xml nor the machine has an identity", undefined);
  const userData = customData ?? Buffer.from(elementTexts(ovf, "CustomData")[0] ?? "");
  return {
    instanceId: instance === undefined ? instanceId : `${instanceId}/${instance}`,
    userData: decodeCustomData(userData),
    localHostname: elementTexts(ovf, "HostName")[0],
    publicKeys: elementTexts(ovf, "Value").filter((text) => /^(?:ssh|ecdsa|sk)-/.test(text)),
    addresses,
  };
}

/** Decodes data that is entirely base64. User data itself begins with "#", a MIME header, or gzip's magic number. */
function decodeCustomData(data: Buffer): Uint8Array {
  const text = data.toString("latin1");
  const plain = text.replaceAll(/\s/g, "");
  const isBase64 =
    plain.length > 0 && plain.length % 4 === 0 && /^[A-Za-z0-9+/]+={0,2}$/.test(plain);
  return isBase64 ? Buffer.from(plain, "base64") : data;
}

interface SharedConfig {
  readonly deployment?: string | undefined;
  readonly instance?: string | undefined;
  readonly addresses: InstanceData["addresses"];
}

function readSharedConfig(xml: string): SharedConfig {
  const deployment = attribute(xml, /<Deployment\b[^<>]*/, "guid");
  const instance = attribute(xml, /<Incarnation\b[^<>]*/, "instance");
  const own = xml.split(/(?=<Instance\b)/).find((part) => {
    const id = attribute(part, /^<Instance\b[^<>]*/, "id");
    return id !== undefined && id === instance;
  });
  const privateIpv4 = own && attribute(own, /^<Instance\b[^<>]*/, "address");
  const endpoint = own && attribute(own, /<Endpoint\b[^<>]*/, "loadBalancedPublicAddress");
  const publicIpv4 = endpoint?.replace(/:\d+$/, "");
  return {
    deployment: deployment?.replaceAll(/[{}]/g, ""),
    instance,
    addresses: { privateIpv4, publicIpv4 },
  };
}

function attribute(xml: string, tag: RegExp, name: string): string | undefined {
  const attributes = (tag.exec(xml)?.[0] ?? "").matchAll(/\s(\w+)="([^"<>]{1,256})"/g);
  return [...attributes].find(([, found]) => found === name)?.[2];
}

/** Texts of all elements with this name, in any namespace. */
function elementTexts(xml: string, name: string): readonly string[] {
  const elements = xml.matchAll(/<(?:\w{1,64}:)?(\w{1,64})(?:\s[^<>]{0,1000})?>([^<]*)<\//g);
  return [...elements].flatMap(([, found, text = ""]) =>
    found === name && text.trim() !== "" ? [text.trim()] : [],
  );
}

async function readAgentFile(file: string): Promise<Buffer | undefined> {
  try {
    const data = await readFile(file);
    // Base64 is larger by a third.
    if (data.length <= 2 * maxUserDataBytes) return data;
  } catch (cause) {
    if (isSystemError(cause, "ENOENT", "ENOTDIR")) return undefined;
    throw invalid(`"${file}" cannot be read`, cause);
  }
  throw invalid(`"${file}" has more than ${2 * maxUserDataBytes} bytes`, undefined);
}

function invalid(reason: string, cause: unknown): CloudInitError {
  return new CloudInitError(
    "METADATA_INVALID",
    `Cannot use the files of Azure's agent: ${reason}`,
    {
      cause,
    },
  );
}
