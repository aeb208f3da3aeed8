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
  /** Service range. Absent in records of earlier versions. */
  services: optional(string),
  userKubeconfig: string,
  /** Value of `--cloud`. Absent in records of earlier versions. */
  cloud: optional(string),
  /** Whether the cluster was still starting when this was written. */
  isStarting: optional(boolean),
});

/** The facts about a local cluster that `kip down` and `kip status` need. Written before anything else is created. */
export type ClusterRecord = decode.Decoded<typeof decodeRecord>;

/** Reads the record. Undefined if there is none, or if this version cannot read it. The latter counts as an interrupted run. */
export async function readRecord(file: string): Promise<ClusterRecord | undefined> {
  return await readJsonRecord(file, decodeRecord);
}

/** Writes the record atomically. */
export async function writeRecord(file: string, record: ClusterRecord): Promise<void> {
  await writeFile(`${file}.new`, `${JSON.stringify(record, undefined, 2)}\n`, { mode: 0o600 });
  await rename(`${file}.new`, file);
}

/** The record of the cluster in a state folder, if it is running and fully started. */
export async function runningCluster(layout: LocalLayout): Promise<ClusterRecord | undefined> {
  const record = await readRecord(layout.daemonRecord);
  if (!record || record.isStarting === true) return undefined;
  return (await clusterProcesses(layout.stateDir)).includes(record.pid) ? record : undefined;
}

/**
 * Like {@link runningCluster}, for commands that need one.
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
