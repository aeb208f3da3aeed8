import { createHash } from "node:crypto";
import { closeSync, constants, lstatSync, openSync, readlinkSync, readSync } from "node:fs";
import { at, closeFolder, openChild, openFolder } from "../unpack/descriptor-path.ts";
import { namesIn } from "../unpack/remove-tree.ts";
import { findAttributeDifference } from "./compare-attributes.ts";

/**
 * Finds the first difference between two trees: type, mode, owner, link target, device, content, extended attributes, and,
 * except for folders, time and number of links. Undefined if there is none. The trees must not change during this.
 */
export function findDifference(one: string, other: string): string | undefined {
  const difference = compare([openFolder(one), openFolder(other)], "");
  if (difference === undefined) return findAttributeDifference(one, other);
  return difference === "" ? "/" : difference;
}

/** Compares two folders and closes them. */
function compare([left, right]: readonly [number, number], path: string): string | undefined {
  try {
    if (describe(left, ".") !== describe(right, ".")) return path;
    const names = namesIn(left).sort();
    if (names.join("\0") !== namesIn(right).sort().join("\0")) return path;
    for (const name of names) {
      const about = describe(left, name);
      if (about !== describe(right, name)) return `${path}/${name}`;
      if (!about.startsWith("directory")) continue;
      const both = [openChild(left, name), openChild(right, name)] as const;
      const difference = compare(both, `${path}/${name}`);
      if (difference !== undefined) return difference;
    }
    return undefined;
  } finally {
    closeFolder(left);
    closeFolder(right);
  }
}

function describe(folder: number, name: string): string {
  const place = at(folder, name);
  const facts = lstatSync(place);
  const { mode, uid, gid, mtimeMs, size, nlink } = facts;
  // A folder without an entry of its own has its creation time.
  if (facts.isDirectory()) return `directory ${mode} ${uid} ${gid}`;
  const about = `${mode} ${uid} ${gid} ${mtimeMs} ${nlink}`;
  if (facts.isSymbolicLink()) return `${about} ${readlinkSync(place, { encoding: "latin1" })}`;
  return facts.isFile() ? `${about} ${size} ${hashOf(place)}` : `${about} ${facts.rdev}`;
}

function hashOf(place: string | Buffer): string {
  const hash = createHash("sha256");
  const buffer = Buffer.allocUnsafe(1024 * 1024);
  const fd = openSync(place, constants.O_RDONLY | constants.O_NOFOLLOW);
  try {
    for (let read = 1; read > 0;) {
      read = readSync(fd, buffer);
      hash.update(buffer.subarray(0, read));
    }
  } finally {
    closeSync(fd);
  }
  return hash.digest("hex");
}
