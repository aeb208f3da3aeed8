import { lstat, readdir, rename, rm } from "node:fs/promises";
import path from "node:path";
import { isSystemError, type Clock } from "@kip/base";
import { closeFolder, self } from "../unpack/descriptor-path.ts";
import { blobSteps, openPart, privateFolder } from "./cache-part.ts";

/** Limits for {@link collectCache}. */
export interface CollectCacheOptions {
  /** Digests of blobs to keep, even if they are unused. */
  readonly inUse: ReadonlySet<string>;
  /** Blobs that were unused for this long are removed, milliseconds. */
  readonly unusedForMs: number;
  /**
   * How long the bytes of an unnamed blob are kept, milliseconds. A machine that has it open can still read it, also over NFS.
   * @default one hour
   */
  readonly graceMs?: number | undefined;
  readonly clock: Clock;
  readonly signal?: AbortSignal | undefined;
}

/** The result of {@link collectCache}. */
export interface CollectedCache {
  /** Number of blobs that can be pulled. */
  readonly blobs: number;
  readonly bytes: number;
  /** Number of blobs that have just lost their names. */
  readonly retiredBlobs: number;
  /** Number of unnamed blobs whose bytes still exist. */
  readonly waitingBlobs: number;
  readonly waitingBytes: number;
  readonly removedBlobs: number;
  readonly removedBytes: number;
}

const hexPattern = /^[0-9a-f]{64}$/;
const retiredPattern = /^\.[0-9a-f]{64}\.unused-(\d{1,16})$/;
/** Matches drafts and claims of writers. Those of running writers change every few seconds. */
const leftOverPattern = /^\.[0-9a-f]{64}\.(?:draft-|claim)/;
/** A draft or claim that was unchanged for this long belongs to a dead writer, milliseconds. */
const deadAfterMs = 3_600_000;
const defaultGraceMs = 3_600_000;

/**
 * Removes blobs that were not used for long from a shared cache, and files left by killed writers.
 *
 * A blob is first renamed, so that no new pull reads it. After a pause its bytes are removed, so pulls that have it open can
 * continue. If it was marked as used just when it lost its name, it gets its name back. Whichever machine is killed at
 * whichever step, a blob either has its name and all its bytes, or cannot be found. Pulls then use the registry.
 *
 * @throws errors of a file system that does not work
 */
export async function collectCache(
  cache: string,
  options: CollectCacheOptions,
): Promise<CollectedCache> {
  const sums = { blobs: 0, bytes: 0, retiredBlobs: 0, waitingBlobs: 0, waitingBytes: 0 };
  const all = { ...sums, removedBlobs: 0, removedBytes: 0 };
  for (const steps of [blobSteps, ...(await privateParts(cache))]) {
    const folder = openIfThere(cache, steps);
    if (folder === undefined) continue;
    try {
      await collectPart(self(folder), options, all);
    } finally {
      closeFolder(folder);
    }
  }
  return all;
}

async function privateParts(cache: string): Promise<readonly (readonly string[])[]> {
  const folder = openIfThere(cache, [privateFolder]);
  if (folder === undefined) return [];
  try {
    const keys = (await readdir(self(folder))).filter((name) => hexPattern.test(name));
    return keys.map((key) => [privateFolder, key, ...blobSteps]);
  } catch (error) {
    // Another user has to collect this folder.
    if (isSystemError(error, "EACCES")) return [];
    throw error;
  } finally {
    closeFolder(folder);
  }
}

/** A missing folder, or something else in its place, has nothing to collect. */
function openIfThere(cache: string, steps: readonly string[]): number | undefined {
  try {
    return openPart(cache, steps);
  } catch (error) {
    if (isSystemError(error, "ENOENT", "ENOTDIR")) return undefined;
    throw error;
  }
}

type Sums = { -readonly [K in keyof CollectedCache]: number };

async function collectPart(
  folder: string,
  options: CollectCacheOptions,
  sums: Sums,
): Promise<void> {
  const { signal, clock, graceMs = defaultGraceMs } = options;
  for (const name of await readdir(folder)) {
    signal?.throwIfAborted();
    const place = path.join(folder, name);
    if (hexPattern.test(name)) {
      await collectBlob(folder, name, options, sums);
    } else if (retiredPattern.test(name)) {
      await removeRetired(place, retiredAt(name), { now: clock.now(), graceMs }, sums);
    } else if (leftOverPattern.test(name)) {
      const facts = await lstat(place).catch(absent);
      if (facts && clock.now() - facts.mtimeMs >= deadAfterMs)
        await rm(place, { recursive: true, force: true });
    }
  }
}

async function collectBlob(
  folder: string,
  hex: string,
  { inUse, unusedForMs, clock }: CollectCacheOptions,
  sums: Sums,
): Promise<void> {
  const place = path.join(folder, hex);
  const facts = await lstat(place).catch(absent);
  if (!facts?.isFile()) return;
  const now = clock.now();
  const isIdle = (mtimeMs: number): boolean => now - mtimeMs >= unusedForMs;
  if (!inUse.has(`sha256:${hex}`) && isIdle(facts.mtimeMs)) {
    const away = path.join(folder, `.${hex}.unused-${Math.floor(now)}`);
    await rename(place, away).catch(absent);
    const after = await lstat(away).catch(absent);
    // Another collector has removed it first.
    if (!after) return;
    if (isIdle(after.mtimeMs)) {
      sums.retiredBlobs++;
      sums.waitingBlobs++;
      sums.waitingBytes += after.size;
      return;
    }
    await rename(away, place).catch(absent); // another collector has restored it
  }
  sums.blobs++;
  sums.bytes += facts.size;
}

async function removeRetired(
  place: string,
  retiredAtMs: number,
  { now, graceMs }: { readonly now: number; readonly graceMs: number },
  sums: Sums,
): Promise<void> {
  const facts = await lstat(place).catch(absent);
  if (!facts) return;
  // A wrong clock must not keep it indefinitely.
  if (Math.abs(now - retiredAtMs) < graceMs) {
    sums.waitingBlobs++;
    sums.waitingBytes += facts.size;
    return;
  }
  await rm(place, { force: true });
  sums.removedBlobs++;
  sums.removedBytes += facts.size;
}

function retiredAt(name: string): number {
  return Number(retiredPattern.exec(name)?.[1]);
}

function absent(error: unknown): undefined {
  if (!isSystemError(error, "ENOENT", "ENOTDIR", "ESTALE")) throw error;
}
