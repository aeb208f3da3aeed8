import { readFile } from "node:fs/promises";
import type { ContainerState } from "../contract/container-runtime.ts";
import { RuntimeError } from "../errors.ts";
import { containerPaths, type ContainerPaths, type RunPaths } from "../run-paths.ts";
import { readLivePid, readRecord, readStartTime } from "./container-record.ts";
import { readExit } from "./exit-watcher.ts";

/** The state of a container according to its files. Undefined if it does not exist or is incomplete. */
export async function readState(paths: RunPaths, id: string): Promise<ContainerState | undefined> {
  const files = containerPaths(paths, id);
  const record = await readRecord(files, id).catch((error: unknown) => {
    if (RuntimeError.is(error, "CONTAINER_NOT_FOUND")) return undefined;
    throw error;
  });
  if (!record) return undefined;
  const [startedAtMs, pid] = await Promise.all([readStartTime(files), readLivePid(files.pid)]);
  // Read last, so that a container that ends in the meantime does not appear as running without a process.
  const exit = await readExit(paths, id);
  return {
    id,
    labels: record.labels,
    logDirectory: record.logDirectory,
    createdAtMs: record.createdAtMs,
    startedAtMs,
    ...(exit
      ? { status: "exited", exit }
      : { status: startedAtMs === undefined ? "created" : "running", pid }),
  };
}

/** Whether a container's monitor is alive. Without it, output is lost and the end is not noticed. */
export async function hasMonitor(files: ContainerPaths): Promise<boolean> {
  const pid = await readLivePid(files.monitorPid);
  if (pid === undefined) return false;
  // The ID may belong to another process by now.
  const name = await readFile(`/proc/${pid}/comm`, "utf8").catch(() => "");
  return name.trim() === "conmon";
}
