import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { isProcessRunning, thisProcess, isSystemError } from "@kip/base";
import { createLocalCloud, type LocalCloud, type LocalCloudOptions } from "../../src/index.ts";
import { writeTinyImage } from "./tiny-image.ts";

/** A local cloud for one test, independent of others on the machine. */
export interface TestCloud {
  readonly folder: string;
  readonly options: LocalCloudOptions;
  /** Opens a handle. Each call stands for another process. */
  open(changes?: Partial<LocalCloudOptions>): Promise<LocalCloud>;
  /** Removes everything. */
  remove(): Promise<void>;
}

/** File in the test's folder with the ID and start time of the test's process. */
const processFile = "test-process";
/** A folder without that file belongs to a test that has just started, or to one that was killed. Milliseconds. */
const beginLimitMs = 600_000;

/**
 * Prepares folders and images, but no network. Removes what killed runs of the same test have left.
 *
 * @param name name of the network namespace
 * @param part a number that selects a range which no other test has
 */
export async function prepareTestCloud(name: string, part: number): Promise<TestCloud> {
  const folder = await mkdtemp(path.join(os.tmpdir(), `${name}-`));
  const { pid, startTicks } = thisProcess();
  await writeFile(path.join(folder, processFile), `${pid} ${startTicks}`);
  const options: LocalCloudOptions = {
    owner: "tests",
    ...foldersIn(folder),
    namespace: name,
    range: `198.18.${64 + part * 8}.0/21`,
    internet: false,
    accelerator: "tcg",
    diskReserveBytes: 2 ** 20,
    // The tiny guests never report that they are up.
    startsAtOnce: 1000,
  };
  for (const left of await leftFolders(name))
    await removeCloud(left, { ...options, ...foldersIn(left) });
  await writeTinyImage(options.imagesDir, "idle", "idle");
  await writeTinyImage(options.imagesDir, "reset", "reset");
  return {
    folder,
    options,
    open: async (changes) => await createLocalCloud({ ...options, ...changes }),
    remove: async () => await removeCloud(folder, options),
  };
}

function foldersIn(folder: string): Pick<LocalCloudOptions, "stateDir" | "imagesDir"> {
  return { stateDir: path.join(folder, "state"), imagesDir: path.join(folder, "images") };
}

async function removeCloud(folder: string, options: LocalCloudOptions): Promise<void> {
  const cloud = await createLocalCloud(options);
  await cloud.terminateAll();
  await cloud.removeNetwork();
  await cloud[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
}

/** Folders that earlier runs of the test have left. */
async function leftFolders(name: string): Promise<readonly string[]> {
  const names = (await readdir(os.tmpdir())).filter((each) => each.startsWith(`${name}-`));
  const folders = names.map((each) => path.join(os.tmpdir(), each));
  const isLeft = await Promise.all(folders.map(async (folder) => !(await isInUse(folder))));
  return folders.filter((_folder, index) => isLeft[index]);
}

async function isInUse(folder: string): Promise<boolean> {
  try {
    const text = await readFile(path.join(folder, processFile), "utf8");
    const [pid, startTicks = ""] = text.split(" ");
    return isProcessRunning({ pid: Number(pid), startTicks });
  } catch (error) {
    if (!isSystemError(error, "ENOENT")) throw error;
    const { mtimeMs } = await stat(folder);
    return Date.now() - mtimeMs < beginLimitMs;
  }
}
