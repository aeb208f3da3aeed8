import fs from "node:fs";
import path from "node:path";
import { AgentError, type DesiredVolume } from "@kip/agent-api";
import { isSystemError, makeFolderSync, textBefore } from "@kip/base";

type VolumeFile = NonNullable<DesiredVolume["files"]>[number];

/** Name of the link to the folder with the current files. */
const dataLink = "..data";

/**
 * Writes the files of a volume so that a reader sees either all old or all new ones. Uses the kubelet's layout: files in a new
 * hidden folder, a link `..data` to it that is replaced by a rename, and a link per top-level name through `..data`. Does
 * nothing if the files are unchanged. Synchronous, because the files are on a tmpfs, where the thread pool would take longer
 * than the writing.
 *
 * @param options.group may read all files
 * @param options.owner the user and group ID of the cell that are 0 in the pod
 * @throws {AgentError} code `AGENT_VOLUME_INVALID` for a path that leaves the volume
 */
export function writeFilesVolume(
  directory: string,
  files: readonly VolumeFile[],
  options: { readonly group?: number | undefined; readonly owner?: number | undefined } = {},
): void {
  for (const file of files) checkPath(file.path);
  makeFolderSync(directory, 0o755, { recursive: true });
  const names = new Set(files.map((file) => topName(file.path)));
  const old = linkTarget(path.join(directory, dataLink));
  if (old !== undefined && isSame(path.join(directory, old), files)) {
    // Finish what an agent that was interrupted has left.
    tidy(directory, old, names);
    return;
  }
  // What an attempt that failed or was interrupted has left takes memory.
  removeOutdated(directory, old);
  const fresh = makeDirectory(directory);
  for (const file of files) writeFile(path.join(directory, fresh), file, options.group);
  if (options.group !== undefined) openToGroup(path.join(directory, fresh));
  const { owner = 0, group = 0 } = options;
  chownTree(path.join(directory, fresh), owner, owner + group);
  for (const file of files)
    if (file.owner !== undefined)
      fs.chownSync(path.join(directory, fresh, file.path), owner + file.owner, owner + group);
  const temporary = path.join(directory, `${dataLink}_tmp`);
  fs.rmSync(temporary, { force: true });
  fs.symlinkSync(fresh, temporary);
  fs.renameSync(temporary, path.join(directory, dataLink));
  tidy(directory, fresh, names);
  if (owner !== 0)
    for (const entry of ["", dataLink, ...names])
      fs.lchownSync(path.join(directory, entry), owner, owner);
}

/** Links the names of the current files, and removes everything else. */
function tidy(directory: string, present: string, names: ReadonlySet<string>): void {
  linkNames(directory, names);
  removeOutdated(directory, present);
}

/** Removes all folders with files, except the one that `..data` refers to. */
function removeOutdated(directory: string, present: string | undefined): void {
  for (const name of fs.readdirSync(directory)) {
    const isOutdated = name.startsWith("..") && name !== dataLink && name !== present;
    if (isOutdated) fs.rmSync(path.join(directory, name), { recursive: true, force: true });
  }
}

function checkPath(file: string): void {
  const parts = file.split("/");
  const isBad = parts.some((part) => part === "" || part === "." || part === "..");
  if (isBad || topName(file).startsWith("..") || file.includes("\0")) {
    throw new AgentError("AGENT_VOLUME_INVALID", `Cannot write volume file "${file}": bad path`);
  }
}

function topName(file: string): string {
  return textBefore(file, "/");
}

function makeDirectory(directory: string): string {
  const made = fs.mkdtempSync(path.join(directory, `..${Date.now()}.`));
  fs.chmodSync(made, 0o755);
  return path.basename(made);
}

function writeFile(root: string, file: VolumeFile, group?: number): void {
  const target = path.join(root, file.path);
  makeFolderSync(path.dirname(target), 0o755, { recursive: true });
  fs.writeFileSync(target, Buffer.from(file.data, "base64"));
  // The pod's modes are independent of the umask. A group from fsGroup may read.
  fs.chmodSync(target, group === undefined ? file.mode : file.mode | 0o440);
}

/** Lets later files in these folders inherit the group. */
function openToGroup(root: string): void {
  for (const entry of entriesOf(root)) if (entry.isDirectory) fs.chmodSync(entry.path, 0o2755);
}

function chownTree(root: string, uid: number, gid: number): void {
  if (uid === 0 && gid === 0) return;
  for (const entry of entriesOf(root)) {
    const { mode } = fs.statSync(entry.path);
    fs.chownSync(entry.path, uid, gid);
    // Changing the group removes setgid.
    fs.chmodSync(entry.path, mode & 0o7777);
  }
}

function entriesOf(
  root: string,
): readonly { readonly path: string; readonly isDirectory: boolean }[] {
  const entries = fs.readdirSync(root, { withFileTypes: true, recursive: true });
  const below = entries.map((entry) => ({
    path: path.join(entry.parentPath, entry.name),
    isDirectory: entry.isDirectory(),
  }));
  return [{ path: root, isDirectory: true }, ...below];
}

/**
 * Anything other than our links is kept, because containers may be using what was created for a subPath or for a mount below
 * the volume.
 */
function linkNames(directory: string, names: ReadonlySet<string>): void {
  const present = new Set(fs.readdirSync(directory));
  for (const name of present) {
    if (!name.startsWith("..") && !names.has(name)) removeLink(path.join(directory, name));
  }
  for (const name of names) {
    if (!present.has(name)) fs.symlinkSync(path.join(dataLink, name), path.join(directory, name));
  }
}

function removeLink(place: string): void {
  if (linkTarget(place) === path.join(dataLink, path.basename(place))) fs.rmSync(place);
}

function isSame(root: string, files: readonly VolumeFile[]): boolean {
  const entries = fs.readdirSync(root, { withFileTypes: true, recursive: true });
  if (entries.filter((entry) => entry.isFile()).length !== files.length) return false;
  for (const file of files) {
    const target = path.join(root, file.path);
    try {
      const data = fs.readFileSync(target);
      const { mode } = fs.statSync(target);
      if (!data.equals(Buffer.from(file.data, "base64"))) return false;
      if ((mode & file.mode) !== file.mode) return false;
    } catch (error) {
      if (isSystemError(error, "ENOENT", "ENOTDIR", "EISDIR")) return false;
      throw error;
    }
  }
  return true;
}

/** The target of a link. Undefined if it does not exist. */
function linkTarget(place: string): string | undefined {
  const isLink = fs.lstatSync(place, { throwIfNoEntry: false })?.isSymbolicLink() === true;
  return isLink ? fs.readlinkSync(place) : undefined;
}
