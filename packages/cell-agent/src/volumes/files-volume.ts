import fs from "node:fs/promises";
import path from "node:path";
import type { DesiredVolume } from "@kip/agent-api";
import { hasCode, KipError } from "@kip/base";

type VolumeFile = NonNullable<DesiredVolume["files"]>[number];

/** Name of the link that points to the directory with the present files. */
const dataLink = "..data";

/**
 * Writes the files of a volume so that a reader sees all of the old or all of the new ones, as the
 * kubelet lays them out: files in a new hidden directory, a link `..data` to it that is exchanged
 * by a rename, and a link per top-level name through `..data`. Does nothing if they are there.
 *
 * @throws {KipError} code `AGENT_VOLUME_INVALID` for a path that leaves the volume
 */
export async function writeFilesVolume(
  directory: string,
  files: readonly VolumeFile[],
  options: { readonly group?: number } = {},
): Promise<void> {
  for (const file of files) checkPath(file.path);
  await fs.mkdir(directory, { recursive: true, mode: 0o755 });
  const old = await linkTarget(path.join(directory, dataLink));
  if (old !== undefined && (await isSame(path.join(directory, old), files))) return;
  const fresh = await makeDirectory(directory);
  for (const file of files) await writeFile(path.join(directory, fresh), file, options.group);
  if (options.group !== undefined) await openToGroup(path.join(directory, fresh), options.group);
  const temporary = path.join(directory, `${dataLink}_tmp`);
  await fs.rm(temporary, { force: true });
  await fs.symlink(fresh, temporary);
  await fs.rename(temporary, path.join(directory, dataLink));
  await linkNames(directory, new Set(files.map((file) => topName(file.path))));
  if (old !== undefined) await fs.rm(path.join(directory, old), { recursive: true, force: true });
}

function checkPath(file: string): void {
  const parts = file.split("/");
  const isBad = parts.some((part) => part === "" || part === "." || part === "..");
  if (isBad || topName(file).startsWith("..") || file.includes("\0")) {
    throw new KipError("AGENT_VOLUME_INVALID", `Cannot write volume file "${file}": bad path`);
  }
}

function topName(file: string): string {
  return file.split("/", 1)[0] ?? "";
}

async function makeDirectory(directory: string): Promise<string> {
  const made = await fs.mkdtemp(path.join(directory, `..${Date.now()}.`));
  await fs.chmod(made, 0o755);
  return path.basename(made);
}

async function writeFile(root: string, file: VolumeFile, group?: number): Promise<void> {
  const target = path.join(root, file.path);
  await fs.mkdir(path.dirname(target), { recursive: true, mode: 0o755 });
  await fs.writeFile(target, Buffer.from(file.data, "base64"));
  // The umask does not count for what a pod asks for; a group given by fsGroup may read.
  await fs.chmod(target, group === undefined ? file.mode : file.mode | 0o440);
  if (group !== undefined) await fs.chown(target, 0, group);
}

async function openToGroup(root: string, group: number): Promise<void> {
  const entries = await fs.readdir(root, { withFileTypes: true, recursive: true });
  const directories = entries.filter((entry) => entry.isDirectory());
  for (const one of [
    root,
    ...directories.map((entry) => path.join(entry.parentPath, entry.name)),
  ]) {
    await fs.chown(one, 0, group);
    await fs.chmod(one, 0o2755);
  }
}

async function linkNames(directory: string, names: ReadonlySet<string>): Promise<void> {
  const present = await fs.readdir(directory);
  for (const name of present) {
    if (!name.startsWith("..") && !names.has(name)) await fs.rm(path.join(directory, name));
  }
  for (const name of names) {
    if (!present.includes(name))
      await fs.symlink(path.join(dataLink, name), path.join(directory, name));
  }
}

async function isSame(root: string, files: readonly VolumeFile[]): Promise<boolean> {
  const entries = await fs.readdir(root, { withFileTypes: true, recursive: true });
  if (entries.filter((entry) => entry.isFile()).length !== files.length) return false;
  for (const file of files) {
    const target = path.join(root, file.path);
    try {
      const data = await fs.readFile(target);
      const { mode } = await fs.stat(target);
      if (!data.equals(Buffer.from(file.data, "base64"))) return false;
      if ((mode & file.mode) !== file.mode) return false;
    } catch (error) {
      if (hasCode(error, "ENOENT", "ENOTDIR", "EISDIR")) return false;
      throw error;
    }
  }
  return true;
}

async function linkTarget(link: string): Promise<string | undefined> {
  try {
    return await fs.readlink(link);
  } catch (error) {
    if (hasCode(error, "ENOENT")) return undefined;
    throw error;
  }
}
