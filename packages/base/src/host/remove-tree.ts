import fs from "node:fs/promises";
import path from "node:path";
import { isSystemError } from "../coded-error.ts";
import { runCommand } from "./run-command.ts";

/** The largest tree, in entries and levels, that is removed here. For a small tree, starting a program would take longer. */
const maxEntries = 1000;
const maxDepth = 20;

/**
 * Removes a directory and everything that a pod created in it, whatever its size, depth and names. A large tree is left to
 * rm(1), so it does not use the agent's memory. Does not follow links, and does not remove files of a file system that is
 * mounted below.
 *
 * Does nothing if the directory does not exist.
 *
 * @throws {CommandError} `COMMAND_FAILED`
 */
export async function removeTree(directory: string): Promise<void> {
  if (await removeSmall(directory)) return;
  await runCommand("rm", ["-rf", "--one-file-system", "--", directory]);
}

/** @returns whether everything was removed */
async function removeSmall(directory: string): Promise<boolean> {
  const root = await fs.lstat(directory).catch((error: unknown) => {
    if (isSystemError(error, "ENOENT")) return undefined;
    throw error;
  });
  if (!root) return true;
  let left = maxEntries;
  try {
    return await removeLevel(directory, root.dev, maxDepth);
  } catch (error) {
    // A mount below, a path that is too long, a file that may not be removed: rm reports the reason.
    if (typeof (error as NodeJS.ErrnoException).code === "string") return false;
    throw error;
  }

  async function removeLevel(folder: string, device: number, depth: number): Promise<boolean> {
    if (depth === 0 || (await fs.lstat(folder)).dev !== device) return false;
    for await (const entry of await fs.opendir(folder)) {
      if (left-- <= 0) return false;
      const place = path.join(folder, entry.name);
      if (!entry.isDirectory()) await fs.unlink(place);
      else if (!(await removeLevel(place, device, depth - 1))) return false;
    }
    await fs.rmdir(folder);
    return true;
  }
}
