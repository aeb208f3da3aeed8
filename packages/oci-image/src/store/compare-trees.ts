import { createHash } from "node:crypto";
import {
  closeSync,
  constants,
  lstatSync,
  openSync,
  readdirSync,
  readlinkSync,
  readSync,
} from "node:fs";
import { toPath } from "../unpack/descriptor-path.ts";

/**
 * The first difference of two trees: type, mode, owner, link target, content, and the time of what
 * is no folder. Undefined if there is none. Nothing else may write to them.
 */
export function findDifference(one: string, other: string, name = ""): string | undefined {
  const left = describe(one, name);
  if (left === undefined || left !== describe(other, name)) return name === "" ? "/" : name;
  if (!left.startsWith("directory")) return undefined;
  const names = namesOf(one, name);
  const others = namesOf(other, name);
  if (names.join("\0") !== others.join("\0")) return name === "" ? "/" : name;
  for (const child of names) {
    const found = findDifference(one, other, `${name}/${child}`);
    if (found !== undefined) return found;
  }
  return undefined;
}

function describe(root: string, name: string): string | undefined {
  const place = placeOf(root, name);
  const facts = lstatSync(place, { throwIfNoEntry: false });
  if (!facts) return undefined;
  const { mode, uid, gid, mtimeMs, size } = facts;
  // A folder without an entry of its own has the time it was made at.
  if (facts.isDirectory()) return `directory ${mode} ${uid} ${gid}`;
  const about = `${mode} ${uid} ${gid} ${mtimeMs}`;
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

function namesOf(root: string, name: string): readonly string[] {
  const names = readdirSync(placeOf(root, name), { encoding: "buffer" });
  return names.map((each) => each.toString("latin1")).sort();
}

function placeOf(root: string, name: string): string | Buffer {
  return toPath(`${Buffer.from(root).toString("latin1")}${name}`);
}
