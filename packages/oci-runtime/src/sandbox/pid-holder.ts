import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { hasPipes } from "@kip/base";
import { RuntimeError } from "../errors.ts";
import { pidHolderScript } from "../gen/scripts.gen.ts";
import { monitorCgroupProcs } from "../spawn/monitor-cgroup.ts";
import { pauseProgram } from "./pause-program.ts";

/** User and group of the holder. They are above 2^31 - 1, so Kubernetes does not allow a container to use them. */
const holderId = 0xff_ff_ff_f0;
/**
 * The same for a user namespace, where this is the highest ID. The program is not readable, so that other processes with this
 * ID cannot access the holder.
 */
const ownHolderId = 0xff_ff;

/**
 * Starts the first process of a PID namespace that a pod's containers share. Without such a process, a namespace accepts no
 * others. It does nothing except reap orphans. It outlives the agent.
 *
 * Containers see this process. One with `CAP_SYS_PTRACE` can enter it or make it run any code. So it must not have anything
 * that containers lack: it has an empty read-only root, a user of its own without capabilities, the pod's namespaces, and none
 * of the cell's file descriptors.
 *
 * @param namespaceFile file to create, which will name the namespace
 * @param options.user file of the pod's user namespace, if it has one
 * @param options.joined files of the pod's other namespaces that the process joins
 * @throws {RuntimeError} `POD_SANDBOX_FAILED`
 */
export async function startPidHolder(
  namespaceFile: string,
  { user, joined }: { readonly user?: string | undefined; readonly joined: readonly string[] },
): Promise<void> {
  const program = pauseProgram(process.arch).toString("hex");
  await writeFile(namespaceFile, "");
  const child = spawn(
    "/usr/bin/perl",
    [
      "-e",
      pidHolderScript,
      process.arch,
      namespaceFile,
      // Root of a user namespace cannot enter the sandbox's folder. It mounts over a folder that everyone can enter. Only this
      // process sees that mount.
      user === undefined ? path.dirname(namespaceFile) : "/proc",
      program,
      String(user === undefined ? holderId : ownHolderId),
      monitorCgroupProcs,
      user ?? "",
      ...joined,
    ],
    { detached: true, cwd: "/", env: { PATH: "/usr/bin:/bin" }, stdio: ["ignore", "pipe", "pipe"] },
  );
  const errors: string[] = [];
  const failed = once(child, "error").then(([error]) => errors.push(String(error)));
  if (!hasPipes(child)) await failed;
  else {
    child.stdout.resume();
    child.stderr.setEncoding("utf8").on("data", (text: string) => errors.push(text));
    await Promise.race([once(child, "close"), failed]);
  }
  if (errors.length === 0 && (await findPidHolder(namespaceFile)) !== undefined) return;
  throw new RuntimeError(
    "POD_SANDBOX_FAILED",
    `Cannot make a shared process namespace: ${errors.join("").trim() || "its first process ended"}`,
  );
}

/** ID of the namespace's first process. Undefined if it has ended or if the namespace does not exist. */
export async function findPidHolder(namespaceFile: string): Promise<number | undefined> {
  const wanted = await inode(namespaceFile);
  if (wanted === undefined) return undefined;
  for (const name of await readdir("/proc")) {
    if (!/^\d+$/.test(name) || (await inode(`/proc/${name}/ns/pid`)) !== wanted) continue;
    const status = await readFile(`/proc/${name}/status`, "utf8").catch(() => "");
    // Its ID in each namespace, the innermost last. An ended process may still be in the table.
    if (/^NSpid:.*\t1$/m.test(status) && !/^State:\t[ZX]/m.test(status)) return Number(name);
  }
  return undefined;
}

/** The kernel's identifier of a namespace. */
async function inode(file: string): Promise<string | undefined> {
  return await stat(file).then(
    ({ dev, ino }) => `${dev}:${ino}`,
    () => undefined,
  );
}
