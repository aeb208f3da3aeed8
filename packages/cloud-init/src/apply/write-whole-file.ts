import {
  closeSync,
  fchmodSync,
  fchownSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { makeFolderSync } from "@kip/base";
import type { WriteFile } from "../config/cloud-config.ts";
import { CloudInitError } from "../errors.ts";

/**
 * Writes a file atomically, with its owner and mode.
 *
 * Synchronous on purpose: nothing else can be done before the files exist, and each asynchronous call costs some milliseconds
 * at a start under emulation.
 *
 * @param root prefix of the path, and of `/etc/passwd` for lookups
 * @throws {CloudInitError} `USER_DATA_OWNER_UNKNOWN`; errors of the file system
 */
export function writeWholeFile(file: WriteFile, root: string): void {
  const target = path.join(root, file.path);
  const folder = path.dirname(target);
  makeFolderSync(folder, 0o755, { recursive: true });
  const temporary = path.join(folder, `.${path.basename(target)}.${process.pid}.part`);
  // A process with the same ID may have been killed and left it.
  rmSync(temporary, { force: true });
  try {
    fill(temporary, file, root);
    renameSync(temporary, target);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
}

function fill(temporary: string, file: WriteFile, root: string): void {
  // The file may contain secrets, so only root may read it until its mode is set.
  const descriptor = openSync(temporary, "wx", 0o600);
  try {
    writeFileSync(descriptor, file.content);
    if (file.owner !== undefined) fchownSync(descriptor, ...findOwner(file.owner, root));
    fchmodSync(descriptor, file.mode);
  } finally {
    closeSync(descriptor);
  }
}

function findOwner(owner: string, root: string): [uid: number, gid: number] {
  const [user = "", group] = owner.split(":", 2);
  const uid = findId(path.join(root, "etc/passwd"), user);
  if (group !== undefined && group !== "")
    return [uid.id, findId(path.join(root, "etc/group"), group).id];
  return [uid.id, uid.primaryGroup ?? uid.id];
}

/** Finds an ID in passwd(5) or group(5). The fields are name, password, ID and, in passwd, the primary group. */
function findId(
  database: string,
  name: string,
): { readonly id: number; readonly primaryGroup?: number | undefined } {
  if (/^\d+$/.test(name)) return { id: Number(name) };
  if (name === "root") return { id: 0, primaryGroup: 0 };
  for (const line of readFileSync(database, "utf8").split("\n")) {
    const [entry, , id, fourth = ""] = line.split(":");
    if (entry !== name || id === undefined) continue;
    return { id: Number(id), primaryGroup: /^\d+$/.test(fourth) ? Number(fourth) : undefined };
  }
  throw new CloudInitError("USER_DATA_OWNER_UNKNOWN", `Cannot find "${name}": not in ${database}`);
}
