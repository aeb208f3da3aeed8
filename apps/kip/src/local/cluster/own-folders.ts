import { access, mkdir, readdir, rm, rmdir } from "node:fs/promises";
import path from "node:path";
import { acquireFileLock, isSystemError } from "@kip/base";
import type { LocalLayout } from "./layout.ts";
import { KipError } from "../../errors.ts";

/** Names that `kip up` creates in a state folder. */
const stateEntries: readonly string[] = [
  "cells",
  "client-ca.crt",
  "control-plane",
  "daemon.json",
  "dns",
  "kubelet.crt",
  "kubelet.key",
  "logs",
  "pod-logs",
  "previous-context",
  "provider.yaml",
  "registry",
];
/** Names in a cache folder. The lock is created first. */
const cacheLock = "up.lock";
const cacheEntries: readonly string[] = [
  "coredns",
  "demo",
  "images",
  "kubernetes",
  "moto",
  "os",
  "templates",
];

/**
 * Checks that a state folder is new, empty, or made by `kip up`, so that it can be used and removed as a whole.
 *
 * @throws {KipError} `FOLDER_FOREIGN`
 */
export async function requireOwnState(layout: LocalLayout, verb: "use" | "remove"): Promise<void> {
  const entries = await entriesOf(layout.stateDir);
  if (entries.every((name) => stateEntries.includes(name))) return;
  if (await exists(layout.daemonLog)) return;
  throw foreign(layout.stateDir, verb, "--state-dir");
}

/** Creates the cache folder, and takes the lock that protects its use and removal. */
export async function lockCache(cacheDir: string): Promise<AsyncDisposable> {
  await mkdir(cacheDir, { recursive: true });
  return await acquireFileLock(path.join(cacheDir, cacheLock), {
    onWait: () => console.log("Waiting for another kip up"),
  });
}

/**
 * Removes the files of `kip up` from its cache folder, and then the folder if it is empty.
 *
 * @throws {KipError} `FOLDER_FOREIGN`, without removing anything
 */
export async function removeCache(cacheDir: string): Promise<void> {
  const entries = await entriesOf(cacheDir);
  if (entries.length > 0 && !entries.includes(cacheLock))
    throw foreign(cacheDir, "remove", "--cache-dir");
  for (const name of [...cacheEntries, cacheLock])
    await rm(path.join(cacheDir, name), { recursive: true, force: true });
  try {
    await rmdir(cacheDir);
  } catch (error) {
    if (!isSystemError(error, "ENOTEMPTY", "ENOENT")) throw error;
  }
}

function foreign(folder: string, verb: string, flag: string): KipError {
  return new KipError(
    "FOLDER_FOREIGN",
    `Cannot ${verb} "${folder}": it holds files that are not kip's`,
    { remedy: `Name another folder with ${flag}` },
  );
}

async function entriesOf(folder: string): Promise<readonly string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    if (isSystemError(error, "ENOENT")) return [];
    throw error;
  }
}

async function exists(file: string): Promise<boolean> {
  return await access(file).then(
    () => true,
    () => false,
  );
}
