import { randomUUID } from "node:crypto";
import { open, readFile, rename, rm } from "node:fs/promises";
import { isSystemError } from "@kip/base";

/** Permissions and owner of a file. */
export interface WriteFileOptions {
  /** Permission bits. @default 0o600 */
  readonly mode?: number;
  /** User and group id of the file. @default this process's */
  readonly owner?: { readonly uid: number; readonly gid: number };
}

/** Writes a file atomically: its name always refers to a complete file, even after a crash of the machine. */
export async function writeWhole(
  path: string,
  content: string,
  options: WriteFileOptions = {},
): Promise<void> {
  const temporary = `${path}.${randomUUID()}.tmp`;
  try {
    const file = await open(temporary, "wx", options.mode ?? 0o600);
    try {
      await file.writeFile(content);
      if (options.owner) await file.chown(options.owner.uid, options.owner.gid);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

/** The file's text, or undefined if it does not exist. */
export async function readIfPresent(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if (isSystemError(error, "ENOENT")) return undefined;
    throw error;
  }
}
