import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { KipError } from "@kip/base";
import { monitorCgroupProcs } from "../spawn/monitor-cgroup.ts";

/**
 * Starts the first process of a PID namespace that a pod's containers share: a namespace without one
 * takes no others. It does nothing but live; as it ignores SIGCHLD, the kernel itself reaps the
 * orphans it inherits. Outlives the agent.
 * @returns the process whose end is the namespace's
 */
export async function startPidHolder(namespaceFile: string): Promise<number> {
  await writeFile(namespaceFile, "");
  const line = `--pid=${namespaceFile} --fork --kill-child=SIGKILL -- /usr/bin/env --ignore-signal=CHLD /bin/sh -c`;
  const child = spawn("/usr/bin/unshare", [...line.split(" "), "echo ready; exec sleep infinity"], {
    detached: true,
    cwd: "/",
    env: { PATH: "/usr/bin:/bin" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const errors: string[] = [];
  child.stderr.setEncoding("utf8").on("data", (text: string) => errors.push(text));
  const ended = once(child, "close").then(() => "ended");
  const state = await Promise.race([once(child.stdout, "data").then(() => "ready"), ended]);
  if (state === "ended" || child.pid === undefined) {
    throw new KipError(
      "POD_SANDBOX_FAILED",
      `Cannot make a shared process namespace: ${errors.join("").trim() || "unshare ended"}`,
    );
  }
  const task = `/proc/${child.pid}/task/${child.pid}/children`;
  const children = (await readFile(task, "utf8")).trim().split(" ");
  for (const pid of [String(child.pid), ...children]) {
    await writeFile(monitorCgroupProcs, pid).catch(() => {}); // no such cgroup: it stays in ours
  }
  child.stdout.destroy();
  child.stderr.destroy();
  child.unref();
  return child.pid;
}

/** The process that a file names, if it still is a holder. */
export async function readHolder(file: string): Promise<number | undefined> {
  const pid = Number(await readFile(file, "utf8").catch(() => "0"));
  if (!(pid > 0)) return undefined;
  const name = await readFile(`/proc/${pid}/comm`, "utf8").catch(() => "");
  return name.trim() === "unshare" ? pid : undefined;
}
