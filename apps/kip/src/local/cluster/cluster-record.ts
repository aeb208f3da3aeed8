import { rename, writeFile } from "node:fs/promises";
import { decode, readJsonRecord } from "@kip/base";
import { KipError } from "../../errors.ts";
import type { LocalLayout } from "./layout.ts";
import { clusterProcesses } from "./processes.ts";

const { boolean, integer, object, optional, string } = decode;

const decodeRecord = object({
  pid: integer,
  server: string,
  nodeName: string,
  kubectl: string,
  adminKubeconfig: string,
  namespaceName: string,
  networkRange: string,
  /** Range of Services. Absent in a record of an earlier version. */
  services: optional(string),
  userKubeconfig: string,
  /** As `--cloud` has it. Absent in a record of an earlier version. */
  cloud: optional(string),
  /** Whether it was still starting when this was written. */
  isStarting: optional(boolean),
});

/** What `kip down` and `kip status` need to know of a local cluster; written before anything of it is made. */
export type ClusterRecord = decode.Decoded<typeof decodeRecord>;

/**
 * Reads the record; undefined if there is no cluster, or none that this version can read: it is then
 * an interrupted run like any other.
 */
export async function readRecord(file: string): Promise<ClusterRecord | undefined> {
  return await readJsonRecord(file, decodeRecord);
}

/** Writes the record, whole or not at all. */
export async function writeRecord(file: string, record: ClusterRecord): Promise<void> {
  await writeFile(`${file}.new`, `${JSON.stringify(record, undefined, 2)}\n`, { mode: 0o600 });
  await rename(`${file}.new`, file);
}

/** The record of the cluster that runs in a state folder, if one does and has been started completely. */
export async function runningCluster(layout: LocalLayout): Promise<ClusterRecord | undefined> {
  const record = await readRecord(layout.daemonRecord);
  if (!record || record.isStarting === true) return undefined;
  return (await clusterProcesses(layout.stateDir)).includes(record.pid) ? record : undefined;
}

/**
 * The same, where nothing can be done without it.
 *
 * @param action completes "Cannot …: it is not running"
 * @throws {KipError} `LOCAL_CLUSTER_ABSENT`
 */
export async function requireRunning(layout: LocalLayout, action: string): Promise<ClusterRecord> {
  const record = await runningCluster(layout);
  if (record) return record;
  throw new KipError("LOCAL_CLUSTER_ABSENT", `Cannot ${action}: it is not running`, {
    remedy: "Start it with kip up",
  });
}
