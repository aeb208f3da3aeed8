import { renameSync, writeFileSync } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { decode, isSystemError, type Decoded } from "@kip/base";
import { notFound, type ContainerPaths } from "../run-paths.ts";

const { boolean, list, map, number, object, oneOf, string, unknownValue } = decode;

const decodeRecord = object({
  id: string,
  labels: map(string),
  logDirectory: string,
  maxLogFiles: number,
  maxLogFileBytes: number,
  /** cgroup path relative to the root of the tree. */
  cgroup: string,
  tty: boolean,
  stdin: oneOf("closed", "once", "open"),
  createdAtMs: number,
});

/** The facts about a container that a later run of the agent needs, in addition to its bundle. */
export type ContainerRecord = Decoded<typeof decodeRecord>;

/** The part of `config.json` that `exec` uses. Kip writes the file (bundle/build-spec.ts). */
const decodeConfig = object({
  ociVersion: string,
  process: object({
    terminal: boolean,
    user: object({ uid: number, gid: number, additionalGids: list(number) }),
    args: list(string),
    env: list(string),
    cwd: string,
    capabilities: object({
      bounding: list(string),
      effective: list(string),
      permitted: list(string),
    }),
    noNewPrivileges: boolean,
    oomScoreAdj: number,
    rlimits: list(object({ type: string, soft: number, hard: number })),
  }),
  root: unknownValue,
  hostname: unknownValue,
  mounts: unknownValue,
  linux: unknownValue,
});

export function writeRecord(files: ContainerPaths, record: ContainerRecord): void {
  // Renamed into place, because a folder with a record is a container.
  writeFileSync(`${files.record}.new`, JSON.stringify(record));
  renameSync(`${files.record}.new`, files.record);
}

/** @throws {RuntimeError} `CONTAINER_NOT_FOUND` */
export async function readRecord(files: ContainerPaths, id: string): Promise<ContainerRecord> {
  const text = await readFile(files.record, "utf8").catch((error: unknown) => {
    throw isSystemError(error, "ENOENT") ? notFound(id) : error;
  });
  return decodeRecord(JSON.parse(text), files.record);
}

/** The configuration of the container's main process. @throws {RuntimeError} `CONTAINER_NOT_FOUND` */
export async function readProcess(
  files: ContainerPaths,
  id: string,
): Promise<Decoded<typeof decodeConfig>["process"]> {
  const text = await readFile(files.config, "utf8").catch((error: unknown) => {
    throw isSystemError(error, "ENOENT") ? notFound(id) : error;
  });
  return decodeConfig(JSON.parse(text), files.config).process;
}

/** When the container was started. Undefined if it was not. */
export async function readStartTime(files: ContainerPaths): Promise<number | undefined> {
  const info = await stat(files.started).catch(() => undefined);
  return info?.mtimeMs;
}

/** Reads a process ID from a file. Undefined if there is none or the process is gone. */
export async function readLivePid(file: string): Promise<number | undefined> {
  const pid = Number(await readFile(file, "utf8").catch(() => "0"));
  return Number.isInteger(pid) && pid > 0 && (await isAlive(pid)) ? pid : undefined;
}

/** Whether a process exists and is not a zombie. */
async function isAlive(pid: number): Promise<boolean> {
  const line = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  // The state follows the name, which is in parentheses and may contain any character.
  const state = line.slice(line.lastIndexOf(")") + 2, line.lastIndexOf(")") + 3);
  return state !== "" && state !== "Z" && state !== "X";
}
