import { textBefore } from "@kip/base";
import { ImageError } from "../errors.ts";
import { readInRoot } from "./read-in-root.ts";

/** Numeric identity of a process. */
export interface ResolvedUser {
  readonly uid: number;
  readonly gid: number;
  /** The groups in the image's `/etc/group` that list the user by name. */
  readonly additionalGids: readonly number[];
  /** The user's home folder in `/etc/passwd`. */
  readonly home?: string | undefined;
  /** The user's name in `/etc/passwd`. */
  readonly name?: string | undefined;
}

interface PasswdEntry {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
  readonly home: string;
}

interface GroupEntry {
  readonly name: string;
  readonly gid: number;
  readonly members: readonly string[];
}

const maxFileBytes = 4 * 1024 * 1024;
/** containerd treats larger numbers as names. A pod cannot use them either. */
const maxId = 0x7fff_ffff;

/**
 * Looks up an image's `config.User` in its `/etc/passwd` and `/etc/group`, with the rules of a kubelet with containerd. For
 * `user:group`, only the user counts (kubernetes#61967), and the group comes from `/etc/passwd`. Digits are always a number,
 * even if a user has that name. An unlisted number gets group 0. An empty text means root.
 *
 * @throws {ImageError} code `IMAGE_USER_UNKNOWN`
 *
 * @example
 * ```ts
 * import { mkdir, mkdtempDisposable, writeFile } from "node:fs/promises";
 * import { resolveUser } from "@kip/oci-image";
 *
 * await using rootfs = await mkdtempDisposable("/tmp/kip-example-");
 * await mkdir(`${rootfs.path}/etc`);
 * await writeFile(`${rootfs.path}/etc/passwd`, "web:x:33:33::/srv:/bin/sh\n");
 * const user = await resolveUser(rootfs.path, "web");
 * assert.deepEqual([user.uid, user.gid, user.home], [33, 33, "/srv"]);
 * ```
 */
export async function resolveUser(rootfs: string, user: string): Promise<ResolvedUser> {
  const wanted = textBefore(user, ":") || "0";
  const id = parseId(wanted);
  const passwd = parsePasswd(read(rootfs, "etc/passwd"));
  const groups = parseGroup(read(rootfs, "etc/group"));
  const entry = passwd.find(({ name, uid }) => (id === undefined ? name === wanted : uid === id));
  const uid = entry?.uid ?? id;
  if (uid === undefined) throw unknown(user, `its /etc/passwd has no user "${wanted}"`);
  const known = entry && { name: entry.name, home: entry.home };
  const gid = entry?.gid ?? 0;
  const memberships = groups.filter(({ members }) => entry && members.includes(entry.name));
  const additionalGids = [...new Set(memberships.map((group) => group.gid))].filter(
    (other) => other !== gid,
  );
  return { uid, gid, additionalGids, ...known };
}

function read(rootfs: string, file: string): readonly string[][] {
  const text = readInRoot(rootfs, file, maxFileBytes)?.toString("utf8") ?? "";
  return text
    .split("\n")
    .filter((line) => !line.startsWith("#"))
    .map((line) => line.split(":"));
}

function parsePasswd(lines: readonly string[][]): readonly PasswdEntry[] {
  return lines.flatMap(([name = "", , uidText = "", gidText = "", , home = ""]) => {
    const uid = parseId(uidText);
    const gid = parseId(gidText);
    if (name === "" || uid === undefined || gid === undefined) return [];
    return [{ name, uid, gid, home: home === "" ? "/" : home }];
  });
}

function parseGroup(lines: readonly string[][]): readonly GroupEntry[] {
  return lines.flatMap(([name = "", , gidText = "", members = ""]) => {
    const gid = parseId(gidText);
    if (name === "" || gid === undefined) return [];
    return [{ name, gid, members: members.split(",").map((member) => member.trim()) }];
  });
}

function parseId(text: string): number | undefined {
  if (!/^\d{1,10}$/.test(text)) return undefined;
  const id = Number(text);
  return id <= maxId ? id : undefined;
}

function unknown(user: string, reason: string): Error {
  return new ImageError("IMAGE_USER_UNKNOWN", `it cannot run as user "${user}": ${reason}`, {
    remedy: "Use a user that the image has, or a number",
  });
}
