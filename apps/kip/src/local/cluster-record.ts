import { readFile, rename, writeFile } from "node:fs/promises";
import { decode, hasCode } from "@kip/base";

const { integer, object, string } = decode;

const decodeRecord = object({
  pid: integer,
  server: string,
  hostAddress: string,
  nodeName: string,
  kubectl: string,
  adminKubeconfig: string,
  namespaceName: string,
  networkRange: string,
  userKubeconfig: string,
});

/** What `kip down` and `kip status` need to know of a local cluster. */
export type ClusterRecord = decode.Decoded<typeof decodeRecord>;

/**
 * Reads the record; undefined if there is no cluster, or none that this version can read: it is then
 * an interrupted run like any other.
 */
export async function readRecord(file: string): Promise<ClusterRecord | undefined> {
  try {
    return decodeRecord(JSON.parse(await readFile(file, "utf8")), "");
  } catch (error) {
    if (hasCode(error, "ENOENT", "DECODE_FAILED") || error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** Writes the record, whole or not at all. */
export async function writeRecord(file: string, record: ClusterRecord): Promise<void> {
  await writeFile(`${file}.new`, `${JSON.stringify(record, undefined, 2)}\n`, { mode: 0o600 });
  await rename(`${file}.new`, file);
}
