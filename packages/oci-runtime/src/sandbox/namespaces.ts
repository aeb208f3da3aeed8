import { mkdirSync, writeFileSync } from "node:fs";
import { rm, statfs } from "node:fs/promises";
import path from "node:path";
import { unmount } from "@kip/base";

/** File system type of a file that names a namespace (`NSFS_MAGIC`, linux/magic.h). */
const namespaceFileSystem = 0x6e_73_66_73;

/** Files to which namespaces are or will be bound. */
export interface NamespaceFiles {
  readonly ipc: string;
  readonly uts?: string | undefined;
  readonly net?: string | undefined;
}

/**
 * A command line that runs a program in new namespaces, each bound to its file. The file keeps the namespace alive without any
 * process in it. Creates the files.
 */
export function inNewNamespaces(files: NamespaceFiles): readonly string[] {
  const entries = Object.entries(files).filter((entry): entry is [string, string] => !!entry[1]);
  for (const [, file] of entries) {
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, "");
  }
  return ["/usr/bin/unshare", ...entries.map(([kind, file]) => `--${kind}=${file}`), "--"];
}

/** Whether a file names an existing namespace. */
export async function isNamespace(file: string): Promise<boolean> {
  const info = await statfs(file).catch(() => undefined);
  return info?.type === namespaceFileSystem;
}

/** Unbinds namespaces and removes the files. A namespace then ends once no process is in it. */
export async function removeNamespaces(files: readonly string[]): Promise<void> {
  const bound: string[] = [];
  for (const file of files) if (await isNamespace(file)) bound.push(file);
  if (bound.length > 0) await unmount(bound);
  for (const file of files) await rm(file, { force: true });
}
