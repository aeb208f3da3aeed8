import { mkdir, mkdtemp, open, readdir, rename, rm, stat, utimes } from "node:fs/promises";
import path from "node:path";
import { acquireFileLock, isSystemError, systemClock } from "@kip/base";

/** Kind of the images that cells boot. */
export const imagesKind = "images";

const keptProducts = 2;
const keptMs = 24 * 3600 * 1000;

/** A build product, kept in `<cacheDir>/<kind>/<key>/`. */
export interface CachedBuild {
  readonly cacheDir: string;
  /** Kind of the product. Builds of one kind run one at a time, across processes too. */
  readonly kind: string;
  /** Hash of all inputs of the product. */
  readonly key: string;
  /** Called once, before waiting for another builder. */
  readonly onWait?: (() => void) | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Fills an empty folder. The folder gets its final name when this resolves, and is removed when it rejects. */
  readonly build: (directory: string) => Promise<void>;
  /** Waits until a file or folder has been written to the disk. @default fsync(2) */
  readonly sync?: ((place: string) => Promise<void>) | undefined;
}

/**
 * Returns the folder of a product, after building it if necessary.
 *
 * Safe against a crash of the builder or the computer at any point. A product gets its final name only once it is complete and
 * on the disk. The next builder removes what a killed one has left behind.
 */
export async function cachedBuild(options: CachedBuild): Promise<string> {
  const { signal, key } = options;
  const folder = path.join(options.cacheDir, options.kind);
  const target = path.join(folder, key);
  if (await isUsable(target)) return target;
  await mkdir(folder, { recursive: true });
  await using _lock = await acquireFileLock(path.join(folder, ".lock"), options);
  if (await isUsable(target)) return target;
  await removePartial(folder);
  const temporary = await mkdtemp(path.join(folder, ".part-"));
  try {
    await options.build(temporary);
    signal?.throwIfAborted();
    await syncTree(temporary, options.sync ?? sync);
    await rename(temporary, target);
  } catch (error) {
    await rm(temporary, { recursive: true, force: true });
    throw error;
  }
  await collect(folder, key);
  return target;
}

async function syncTree(folder: string, syncOne: (place: string) => Promise<void>): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const place = path.join(folder, entry.name);
    if (entry.isDirectory()) await syncTree(place, syncOne);
    else if (entry.isFile()) await syncOne(place);
  }
  await syncOne(folder);
}

async function sync(place: string): Promise<void> {
  await using handle = await open(place, "r");
  await handle.sync();
}

/**
 * Marks an image as used, so that builds of other images keep it. They remove images that were not used for a day. Ignored if
 * the image does not exist.
 *
 * @param cacheDir the folder given to {@link buildCellImage}
 */
export async function markImageUsed(cacheDir: string, id: string): Promise<void> {
  await isUsable(path.join(cacheDir, imagesKind, id));
}

/** Whether the product exists. If so, marks it as just used. */
async function isUsable(target: string): Promise<boolean> {
  try {
    await utimes(target, new Date(), new Date());
    return true;
  } catch (error) {
    if (isSystemError(error, "ENOENT")) return false;
    throw error;
  }
}

async function removePartial(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    // Programs of a killed builder end with it, but not at the same instant. They may still be adding files.
    if (name.startsWith(".part-"))
      await rm(path.join(folder, name), { recursive: true, maxRetries: 5 });
  }
}

/** Removes products that were not used for a day, except for the last few, so that going back a version is fast. */
async function collect(folder: string, current: string): Promise<void> {
  const others: { readonly name: string; readonly usedAt: number }[] = [];
  for (const name of await readdir(folder)) {
    if (name.startsWith(".") || name === current) continue;
    others.push({ name, usedAt: (await stat(path.join(folder, name))).mtimeMs });
  }
  others.sort((a, b) => b.usedAt - a.usedAt);
  const unused = others
    .slice(keptProducts)
    .filter(({ usedAt }) => usedAt < systemClock.now() - keptMs);
  for (const { name } of unused) await rm(path.join(folder, name), { recursive: true });
}
