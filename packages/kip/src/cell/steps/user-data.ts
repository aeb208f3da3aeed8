import { gzipSync } from "node:zlib";
import type { CellIdentity } from "@kip/agent-api";
import type { CellCloudInit } from "../../config/cell-cloud-init.ts";

/** Where the agent finds its identity. */
export const identityPath = "/var/lib/itzo/identity.json";

/**
 * User data up to this size, bytes, is not compressed, so that people can read it in the cloud's console. Clouds accept four
 * times as much.
 */
const plainBytes = 4096;

/**
 * The user data of a cell: a `#cloud-config` document that applies the operator's file and writes the agent's identity. The
 * body is JSON, which every YAML parser accepts. It does not contain any credentials of the cluster. If it is larger than 4
 * KiB, it is compressed by gzip, which cloud-init unpacks.
 */
export function userData(identity: CellIdentity, cloudInit: CellCloudInit = {}): Uint8Array {
  const { write_files: files = [], ...others } = cloudInit;
  const identityFile = {
    path: identityPath,
    permissions: "0600",
    owner: "root:root",
    content: JSON.stringify(identity),
  };
  // Checked when the file was read: a list, without this path.
  const document = { ...others, write_files: [...(files as readonly unknown[]), identityFile] };
  const plain = Buffer.from(`#cloud-config\n${JSON.stringify(document)}\n`);
  return plain.length > plainBytes ? gzipSync(plain, { level: 9 }) : plain;
}
