import { readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { decode, type Clock, readJsonRecord } from "@kip/base";
import { cachedBuild, type CachedBuild } from "./build-cache.ts";

/** A product that depends not only on its key, but also on what package sources offer at the time. */
export interface UpdatableBuild extends CachedBuild {
  /** Whether to rebuild an existing product. If that fails, the old product stays. */
  readonly refresh: boolean;
  /** File of the product that lists its content. */
  readonly contentFile: string;
  readonly clock: Clock;
}

/** What {@link updatableBuild} returns. */
export interface UpdatableProduct {
  readonly directory: string;
  readonly key: string;
  /** When the product was last known to be up to date, milliseconds since the epoch. */
  readonly currentAt: number;
}

const decodeRecord = decode.object({ key: decode.string, currentAt: decode.number });
type Product = decode.Decoded<typeof decodeRecord>;

/**
 * Returns the folder of a product as {@link cachedBuild} does, or rebuilds it with what is offered now. If the result is the
 * same, the old product is kept, together with everything that was built from it.
 */
export async function updatableBuild(options: UpdatableBuild): Promise<UpdatableProduct> {
  const { cacheDir, kind, key, refresh, clock } = options;
  const record = path.join(cacheDir, kind, `.current-${key}.json`);
  const current = (await readRecord(record))?.key ?? key;
  if (!refresh || !(await exists(path.join(cacheDir, kind, current)))) {
    const directory = await cachedBuild({ ...options, key: current });
    const builtAt = (await stat(path.join(directory, options.contentFile))).mtimeMs;
    const known = await readRecord(record);
    return {
      directory,
      key: current,
      currentAt: known?.key === current ? known.currentAt : builtAt,
    };
  }
  const currentAt = clock.now();
  const next = await cachedBuild({ ...options, key: `${key}-${currentAt.toString(36)}` });
  const directory = path.join(cacheDir, kind, current);
  const content = async (folder: string): Promise<string> =>
    await readFile(path.join(folder, options.contentFile), "utf8");
  if ((await content(next)) === (await content(directory))) {
    await rm(next, { recursive: true });
    await writeRecord(record, { key: current, currentAt });
    return { directory, key: current, currentAt };
  }
  await writeRecord(record, { key: path.basename(next), currentAt });
  return { directory: next, key: path.basename(next), currentAt };
}

async function readRecord(file: string): Promise<Product | undefined> {
  // An unreadable record counts as missing: the product is found by its plain key, or built.
  return await readJsonRecord(file, decodeRecord);
}

async function writeRecord(file: string, record: Product): Promise<void> {
  await writeFile(`${file}.new`, JSON.stringify(record));
  await rename(`${file}.new`, file);
}

async function exists(folder: string): Promise<boolean> {
  return await stat(folder).then(
    () => true,
    () => false,
  );
}
