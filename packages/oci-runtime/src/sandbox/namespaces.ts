import { mkdirSync, writeFileSync } from "node:fs";
import { rm, statfs } from "node:fs/promises";
import path from "node:path";
import { unmount } from "@kip/base";

/** File system type of a file that names a namespace (`NSFS_MAGIC`, linux/magic.h). */
const namespaceFileSystem = 0x6e_73_66_73;

/** Files that namespaces are, or shall be, bound to. */
export interface NamespaceFiles {
  readonly ipc: string;
  readonly uts?: string | undefined;
  readonly net?: string | undefined;
}

/**
 * The command line of a program that runs in new namespaces, each bound to its file, which keeps it
 * without any process in it. Makes the files.
 */
export function inNewNamespaces(files: NamespaceFiles): readonly string[] {
  const entries = Object.entries(files).filter((entry): entry is [string, string] => !!entry[1]);
  for (const [, file] of entries) {
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, "");
  }
  return ["/usr/bin/unshare", ...entries.map(([kind, file]) => `--${kind}=${file}`), "--"];
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
  if (bound.length > 0) await unmount(bound);
  for (const file of files) await rm(file, { force: true });
}
