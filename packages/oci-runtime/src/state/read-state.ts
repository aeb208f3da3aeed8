import { readFile } from "node:fs/promises";
import type { ContainerState } from "../contract/container-runtime.ts";
import { RuntimeError } from "../errors.ts";
import { containerPaths, type ContainerPaths, type RunPaths } from "../run-paths.ts";
import { readLivePid, readRecord, readStartTime } from "./container-record.ts";
import { readExit } from "./exit-watcher.ts";

/** A container as the disk shows it; undefined for one that does not exist or is half made. */
export async function readState(paths: RunPaths, id: string): Promise<ContainerState | undefined> {
  const files = containerPaths(paths, id);
  const record = await readRecord(files, id).catch((error: unknown) => {
    if (RuntimeError.is(error, "CONTAINER_NOT_FOUND")) return undefined;
    throw error;
  });
  if (!record) return undefined;
  const [startedAtMs, pid] = await Promise.all([readStartTime(files), readLivePid(files.pid)]);
  // Read last: a container that ends in the meantime must not be seen running without a process.
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

/** Whether a container's monitor lives: without it, output is lost and the end not noticed. */
export async function hasMonitor(files: ContainerPaths): Promise<boolean> {
  const pid = await readLivePid(files.monitorPid);
  if (pid === undefined) return false;
  // The number may be another process's by now.
  const name = await readFile(`/proc/${pid}/comm`, "utf8").catch(() => "");
  return name.trim() === "conmon";
}
