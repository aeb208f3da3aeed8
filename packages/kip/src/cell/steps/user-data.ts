import { gzipSync } from "node:zlib";
import type { CellIdentity } from "@kip/agent-api";
import type { CellCloudInit } from "../../config/cell-cloud-init.ts";

/** Where the agent finds its identity. */
export const identityPath = "/var/lib/itzo/identity.json";

/**
 * User data of at most this size, bytes, is not compressed, so that people can read it in the cloud's console. Clouds
 * take four times as much.
 */
const plainBytes = 4096;

/**
 * The user data of a cell: a `#cloud-config` document that writes the agent's identity, after what the operator's file asks for.
 * The body is JSON, which every YAML reader takes. It holds no credential of the cluster. What is larger than 4 KiB is
 * compressed by gzip, which cloud-init unpacks.
 */
export function userData(identity: CellIdentity, cloudInit: CellCloudInit = {}): Uint8Array {
  const { write_files: files = [], ...others } = cloudInit;
  const identityFile = {
    path: identityPath,
    permissions: "0600",
    owner: "root:root",
    content: JSON.stringify(identity),
  };
  // Checked where the file is read: a list, without this path.
  const document = { ...others, write_files: [...(files as readonly unknown[]), identityFile] };
  const plain = Buffer.from(`#cloud-config\n${JSON.stringify(document)}\n`);
  return plain.length > plainBytes ? gzipSync(plain, { level: 9 }) : plain;
}
