import { readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { decode, type Clock, readJsonRecord } from "@kip/base";
import { cachedBuild, type CachedBuild } from "./build-cache.ts";

/** A product that depends on more than its key: on what others offer at the time. */
export interface UpdatableBuild extends CachedBuild {
  /** Builds again, even if there is a product. A failure leaves the product that there is. */
  readonly refresh: boolean;
  /** File of the product that lists what it was made of. */
  readonly contentFile: string;
  readonly clock: Clock;
}

/** What {@link updatableBuild} returns. */
export interface UpdatableProduct {
  readonly directory: string;
  readonly key: string;
  /** When the product was the newest possible, as far as is known; milliseconds since 1970. */
  readonly currentAt: number;
}

const decodeRecord = decode.object({ key: decode.string, currentAt: decode.number });
type Product = decode.Decoded<typeof decodeRecord>;

/**
 * Gives the folder of a product as {@link cachedBuild} does, or builds it again with what is offered now. A product that turns
 * out the same is kept, and so is what was made of it.
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
  // One that cannot be read is as good as none: the product is found by its plain key, or built.
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
