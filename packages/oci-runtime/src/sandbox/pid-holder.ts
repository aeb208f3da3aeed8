import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { hasPipes } from "@kip/base";
import { RuntimeError } from "../errors.ts";
import { pidHolderScript } from "../gen/scripts.gen.ts";
import { monitorCgroupProcs } from "../spawn/monitor-cgroup.ts";
import { pauseProgram } from "./pause-program.ts";

/** User and group of the holder: above 2^31 - 1, so that Kubernetes lets no container run as it. */
const holderId = 0xff_ff_ff_f0;
/** The same in a user namespace, which has IDs up to here. Its program cannot be read, so that no other process of the ID gets at it. */
const ownHolderId = 0xff_ff;

/**
 * Starts the first process of a PID namespace that a pod's containers share: a namespace without one
 * takes no others. It does nothing but live, and reaps the orphans it inherits. Outlives the agent.
 *
 * Containers see this process, and one with `CAP_SYS_PTRACE` can enter it or have it run what it
 * likes. So it has nothing that they lack: an empty read-only root, a user of its own without
 * capabilities, the pod's namespaces, and no descriptor of the cell's.
 *
 * @param namespaceFile made; names the namespace from then on
 * @param options.user file of the pod's user namespace, if it has one of its own
 * @param options.joined files of the pod's other namespaces that it is in as well
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
      // Root of a user namespace cannot enter our folder; it mounts over any other that all may enter, and only it sees that.
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

/** The process ID of the namespace's first process; undefined if it has ended or there is no namespace. */
export async function findPidHolder(namespaceFile: string): Promise<number | undefined> {
  const wanted = await inode(namespaceFile);
  if (wanted === undefined) return undefined;
  for (const name of await readdir("/proc")) {
    if (!/^\d+$/.test(name) || (await inode(`/proc/${name}/ns/pid`)) !== wanted) continue;
    const status = await readFile(`/proc/${name}/status`, "utf8").catch(() => "");
    // Its number in each namespace, the innermost last. One that has ended may still be in the table.
    if (/^NSpid:.*\t1$/m.test(status) && !/^State:\t[ZX]/m.test(status)) return Number(name);
  }
  return undefined;
}

/** The kernel's identity of a namespace. */
async function inode(file: string): Promise<string | undefined> {
  return await stat(file).then(
    ({ dev, ino }) => `${dev}:${ino}`,
    () => undefined,
  );
}
