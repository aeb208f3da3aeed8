import { mkdir, rm, statfs, writeFile } from "node:fs/promises";
import path from "node:path";
import { runCommand } from "@kip/base";

/** File system type of a file that names a namespace (`NSFS_MAGIC`, linux/magic.h). */
const namespaceFileSystem = 0x6e_73_66_73;

/** Files that namespaces are, or shall be, bound to. */
export interface NamespaceFiles {
  readonly ipc: string;
  readonly uts?: string;
  readonly net?: string;
}

/**
 * Makes the namespaces and binds each to its file, which keeps it without any process in it. In the
 * new network namespace `ip -batch` then reads its commands: all in one start of a program.
 */
export async function makeNamespaces(files: NamespaceFiles, ipCommands: string): Promise<void> {
  const entries = Object.entries(files).filter((entry): entry is [string, string] => !!entry[1]);
  for (const [, file] of entries) {
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(file, "");
  }
  const program = files.net === undefined ? ["/bin/true"] : ["/usr/sbin/ip", "-batch", "-"];
  await runCommand(
    "/usr/bin/unshare",
    [...entries.map(([kind, file]) => `--${kind}=${file}`), "--", ...program],
    { input: ipCommands },
  );
}

/** Whether a file names a namespace that exists. */
export async function isNamespace(file: string): Promise<boolean> {
  const info = await statfs(file).catch(() => undefined);
  return info?.type === namespaceFileSystem;
}

/** Unbinds namespaces, with which they end once no process is in them, and removes the files. */
export async function removeNamespaces(files: readonly string[]): Promise<void> {
  const bound: string[] = [];
  for (const file of files) if (await isNamespace(file)) bound.push(file);
  if (bound.length > 0) await runCommand("/usr/bin/umount", bound);
  for (const file of files) await rm(file, { force: true });
}
