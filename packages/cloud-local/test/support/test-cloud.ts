import { mkdtemp, rm } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { createLocalCloud, type LocalCloud, type LocalCloudOptions } from "../../src/index.ts";
import { writeTinyImage } from "./tiny-image.ts";

/** A local cloud of a test's own, beside whatever else runs on the machine. */
export interface TestCloud {
  readonly folder: string;
  readonly options: LocalCloudOptions;
  /** Each call stands for another process. */
  open(changes?: Partial<LocalCloudOptions>): Promise<LocalCloud>;
  /** Removes all of it. */
  remove(): Promise<void>;
}

/**
 * Prepares folders and images; no network yet.
 *
 * @param name network namespace, and a number that gives a range that no other test has
 */
export async function prepareTestCloud(name: string, part: number): Promise<TestCloud> {
  const folder = await mkdtemp(path.join(os.tmpdir(), `${name}-`));
  const options: LocalCloudOptions = {
    owner: "tests",
    stateDir: path.join(folder, "state"),
    imagesDir: path.join(folder, "images"),
    namespace: name,
    range: `198.18.${64 + part * 8}.0/21`,
    internet: false,
    accelerator: "tcg",
    diskReserveBytes: 2 ** 20,
    // The tiny guests never say that they are up.
    startsAtOnce: 1000,
  };
  await writeTinyImage(options.imagesDir, "idle", "idle");
  await writeTinyImage(options.imagesDir, "reset", "reset");
  return {
    folder,
    options,
    open: async (changes) => await createLocalCloud({ ...options, ...changes }),
    remove: async () => {
      const cloud = await createLocalCloud(options);
      await cloud.terminateAll();
      await cloud.removeNetwork();
      await cloud[Symbol.asyncDispose]();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
