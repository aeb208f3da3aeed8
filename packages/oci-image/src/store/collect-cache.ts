import { lstat, readdir, rename, rm } from "node:fs/promises";
import path from "node:path";
import { isSystemError, type Clock } from "@kip/base";
import { closeFolder, self } from "../unpack/descriptor-path.ts";
import { blobSteps, openPart, privateFolder } from "./cache-part.ts";

/** What {@link collectCache} may remove. */
export interface CollectCacheOptions {
  /** Digests of blobs that stay, however long they were not used. */
  readonly inUse: ReadonlySet<string>;
  /** Blobs that were not used for so long are removed, milliseconds. */
  readonly unusedForMs: number;
  /**
   * For so long a blob that has lost its name keeps its bytes, milliseconds: a machine that has it open reads on, over NFS too.
   * @default one hour
   */
  readonly graceMs?: number | undefined;
  readonly clock: Clock;
  readonly signal?: AbortSignal | undefined;
}

/** What was done, and what is left. */
export interface CollectedCache {
  /** Blobs that can be pulled. */
  readonly blobs: number;
  readonly bytes: number;
  /** Blobs that lost their names now. */
  readonly retiredBlobs: number;
  /** Blobs without names, whose bytes are still there. */
  readonly waitingBlobs: number;
  readonly waitingBytes: number;
  readonly removedBlobs: number;
  readonly removedBytes: number;
}

const hexPattern = /^[0-9a-f]{64}$/;
const retiredPattern = /^\.[0-9a-f]{64}\.unused-(\d{1,16})$/;
/** Drafts and claims of fillers; those of living ones change every few seconds. */
const leftOverPattern = /^\.[0-9a-f]{64}\.(?:draft-|claim)/;
/** A draft or claim that has not changed for so long is a dead filler's, milliseconds. */
const deadAfterMs = 3_600_000;
const defaultGraceMs = 3_600_000;

/**
 * Removes from a shared cache what was not used for long, and what fillers have left that were killed.
 *
 * A blob first loses its name by a rename, so that no pull begins to read it, and then, after a pause, its bytes: pulls that have it
 * open go on. One that is noted as used just when it loses its name gets it back. Whatever machine is killed at whatever
 * step, a blob has its name and all of its bytes, or cannot be found; pulls then ask the registry.
 *
 * @throws what the file system says when it does not work
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
    // It is another's to collect.
    if (isSystemError(error, "EACCES")) return [];
    throw error;
  } finally {
    closeFolder(folder);
  }
}

/** A folder that is not there, or is something else, has nothing to collect. */
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
    // Another collector was first.
    if (!after) return;
    if (isIdle(after.mtimeMs)) {
      sums.retiredBlobs++;
      sums.waitingBlobs++;
      sums.waitingBytes += after.size;
      return;
    }
    await rename(away, place).catch(absent); // another collector has given it back
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
  // A clock that was wrong must not keep it indefinitely.
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
