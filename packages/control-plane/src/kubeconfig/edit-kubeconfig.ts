import { chmod, chown, link, mkdtemp, open, readFile, rename, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { isProcessRunning, isSystemError, runCommand, thisProcess } from "@kip/base";
import { ControlPlaneError } from "../errors.ts";
import { readIfPresent, writeWhole } from "../host/files.ts";
import { parseIdentity } from "../host/recorded-process.ts";

/** A kubeconfig that is being changed. The changes go to a copy until they are complete. */
export interface KubeconfigEdit {
  /** Whether the file did not exist before. */
  readonly isNew: boolean;
  /** A private directory for files that kubectl must read. It is removed afterwards. */
  readonly scratch: string;
  /** Runs `kubectl config <args>` on the copy and resolves with its output. */
  config(...args: readonly string[]): Promise<string>;
}

/** What to do with the file after the edit. */
export type EditOutcome = "keep" | "remove";

/** The file to edit, and the tools for it. */
export interface EditTarget {
  readonly path: string;
  readonly kubectl: string;
  /** Parent of a temporary folder for keys that kubectl must read. */
  readonly scratchDir: string;
}

/**
 * Changes a kubeconfig atomically: either all changes are there afterwards, or none. Holds kubectl's own lock, `<path>.lock`.
 *
 * @throws {ControlPlaneError} `KUBECONFIG_LOCKED`, `KUBECONFIG_INVALID`
 */
export async function editKubeconfig(
  target: EditTarget,
  change: (edit: KubeconfigEdit) => Promise<EditOutcome>,
): Promise<void> {
  await using undo = new AsyncDisposableStack();
  undo.use(await lock(target.path));
  // Beside the original, so that its relative paths stay valid.
  const copy = `${target.path}.kip-edit`;
  undo.defer(async () => await rm(copy, { force: true }));
  const scratch = await mkdtemp(join(target.scratchDir, "kubeconfig-"));
  undo.defer(async () => await rm(scratch, { recursive: true, force: true }));

  const isNew = !(await copyIfPresent(target.path, copy));
  const config = async (...args: readonly string[]): Promise<string> =>
    await runConfig(target, ["config", `--kubeconfig=${copy}`, ...args]);
  // Use the directory's owner, because with sudo, root edits a user's file.
  const owner = await stat(isNew ? dirname(target.path) : target.path);
  const outcome = await change({ isNew, scratch, config });
  if (outcome === "remove") await rm(target.path, { force: true });
  else await replace(copy, target.path, owner);
}

async function runConfig(target: EditTarget, args: readonly string[]): Promise<string> {
  try {
    return (await runCommand(target.kubectl, args, { env: {} })).stdout;
  } catch (error) {
    throw new ControlPlaneError(
      "KUBECONFIG_INVALID",
      `Cannot change "${target.path}": kubectl refuses`,
      {
        cause: error,
        remedy: "Correct the file, or name another one in KUBECONFIG; it was left as it was",
      },
    );
  }
}

async function replace(
  from: string,
  to: string,
  owner: { readonly uid: number; readonly gid: number },
): Promise<void> {
  await chmod(from, 0o600);
  await chown(from, owner.uid, owner.gid);
  await using file = await open(from, "r");
  await file.sync();
  await rename(from, to);
}

/** Creates the copy with private permissions from the start, because kubectl writes a key into it. */
async function copyIfPresent(from: string, to: string): Promise<boolean> {
  await rm(to, { force: true });
  try {
    const content = await readFile(from);
    await using copy = await open(to, "wx", 0o600);
    await copy.writeFile(content);
    return true;
  } catch (error) {
    if (isSystemError(error, "ENOENT")) return false;
    throw error;
  }
}

/** Takes the lock that kubectl respects. A lock that was left by a killed process of kip is taken over. */
async function lock(path: string): Promise<AsyncDisposable> {
  const lockPath = `${path}.lock`;
  if (!(await tryLock(lockPath))) {
    const holder = parseIdentity((await readIfPresent(lockPath)) ?? "");
    if (holder && !isProcessRunning(holder)) await rm(lockPath, { force: true });
    if (!(await tryLock(lockPath))) {
      throw new ControlPlaneError(
        "KUBECONFIG_LOCKED",
        `Cannot change "${path}": another program has it`,
        {
          remedy: `Try again; if no kubectl is running, delete "${lockPath}"`,
        },
      );
    }
  }
  return { [Symbol.asyncDispose]: async () => await rm(lockPath, { force: true }) };
}

/** Creates the lock file. It names this process from the start. */
async function tryLock(lockPath: string): Promise<boolean> {
  const named = `${lockPath}.kip`;
  await writeWhole(named, JSON.stringify(thisProcess()));
  try {
    await link(named, lockPath);
    return true;
  } catch (error) {
    if (isSystemError(error, "EEXIST")) return false;
    throw error;
  } finally {
    await rm(named, { force: true });
  }
}
