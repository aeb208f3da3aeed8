import { chownSync, cpSync, existsSync, lstatSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { isSystemError, makeFolderSync } from "@kip/base";
import type { CloudUser } from "../config/cloud-config.ts";
import { CloudInitError } from "../errors.ts";
import { AccountFile } from "./account-file.ts";
import { writeWholeFile } from "./write-whole-file.ts";

/** ID ranges of users and groups, from Debian's login.defs. */
const userIds = { first: 1000, last: 59_999, step: 1 };
const systemIds = { first: 999, last: 100, step: -1 };

interface Account {
  readonly uid: number;
  readonly gid: number;
  readonly home: string;
}

class Accounts {
  readonly passwd: AccountFile;
  readonly group: AccountFile;
  readonly shadow: AccountFile | undefined;
  readonly gshadow: AccountFile | undefined;

  constructor(root: string) {
    const passwd = AccountFile.open("passwd", root);
    const group = AccountFile.open("group", root);
    if (!passwd || !group)
      throw new CloudInitError(
        "USER_DATA_APPLY_FAILED",
        "Cannot read the users: there is no /etc/passwd or /etc/group",
      );
    this.passwd = passwd;
    this.group = group;
    this.shadow = AccountFile.open("shadow", root);
    this.gshadow = AccountFile.open("gshadow", root);
  }

  /** Saves the groups first, because a user without a group is worse than a group without a user. */
  save(): void {
    for (const file of [this.group, this.gshadow, this.shadow, this.passwd]) file?.save();
  }

  account(name: string): Account | undefined {
    const [, , uid, gid, , home] = this.passwd.find(name) ?? [];
    return uid === undefined
      ? undefined
      : { uid: Number(uid), gid: Number(gid), home: home ?? "/" };
  }
}

/**
 * Creates a user with its groups, home and keys, by writing the account files directly: the cell needs no programs for it. An
 * existing user is kept, but gets the password and additional keys.
 *
 * @throws {CloudInitError} `USER_DATA_APPLY_FAILED`; errors of the file system
 */
export function applyUser(user: CloudUser, root: string): void {
  const accounts = new Accounts(root);
  const isNew = accounts.account(user.name) === undefined;
  if (isNew) addUser(user, accounts);
  setPassword(user, accounts);
  accounts.save();
  const account = accounts.account(user.name);
  if (!account) return;
  const hasHome = user.hasHome ?? user.isSystem !== true;
  if (isNew && hasHome) makeHome(account, root);
  if (user.sshAuthorizedKeys.length > 0) addKeys(user.sshAuthorizedKeys, account, root);
}

/** Adds keys that root does not have. @throws errors of the file system */
export function addRootKeys(keys: readonly string[], root: string): void {
  const account = new Accounts(root).account("root");
  addKeys(keys, account ?? { uid: 0, gid: 0, home: "/root" }, root);
}

function addUser(user: CloudUser, accounts: Accounts): void {
  const range = user.isSystem === true ? systemIds : userIds;
  const taken = accounts.passwd.ids();
  if (user.uid !== undefined && taken.has(user.uid))
    throw failed(`the number ${user.uid} is taken`);
  const uid = user.uid ?? freeId(range, [taken, accounts.group.ids()]);
  const gid = addGroup(user.primaryGroup ?? user.name, accounts, range, uid);
  for (const group of user.groups) addGroup(group, accounts, range);
  const home = user.homedir ?? `/home/${user.name}`;
  const shell = user.shell ?? "/bin/sh";
  const fields = [user.name, "x", `${uid}`, `${gid}`, user.gecos ?? "", home, shell];
  accounts.passwd.add(fields);
  const days = `${Math.trunc(Date.now() / 86_400_000)}`;
  // Like useradd(8): passwords of system users do not age.
  const ageing = user.isSystem === true ? ["", "", ""] : ["0", "99999", "7"];
  accounts.shadow?.add([user.name, "!", days, ...ageing, "", "", ""]);
  if (!accounts.shadow) accounts.passwd.set(user.name, 1, "!");
  for (const group of user.groups) {
    accounts.group.addMember(group, 3, user.name);
    accounts.gshadow?.addMember(group, 3, user.name);
  }
}

/** @returns the group ID */
function addGroup(
  name: string,
  accounts: Accounts,
  range: typeof userIds,
  wanted?: number,
): number {
  const existing = accounts.group.find(name)?.[2];
  if (existing !== undefined) return Number(existing);
  const taken = accounts.group.ids();
  const gid =
    wanted !== undefined && !taken.has(wanted)
      ? wanted
      : freeId(range, [taken, accounts.passwd.ids()]);
  accounts.group.add([name, "x", `${gid}`, ""]);
  accounts.gshadow?.add([name, "!", "", ""]);
  return gid;
}

function freeId(range: typeof userIds, taken: readonly ReadonlySet<number>[]): number {
  for (let id = range.first; id !== range.last + range.step; id += range.step)
    if (!taken.some((ids) => ids.has(id))) return id;
  throw failed("there is no free number");
}

function setPassword(user: CloudUser, accounts: Accounts): void {
  const file = accounts.shadow ?? accounts.passwd;
  if (user.passwordHash !== undefined) {
    file.set(user.name, 1, user.passwordHash);
    if (accounts.shadow) accounts.passwd.set(user.name, 1, "x");
  }
  const hash = file.find(user.name)?.[1] ?? "";
  if (user.isLocked === true && !hash.startsWith("!")) file.set(user.name, 1, `!${hash}`);
}

/** Creates the home folder. An existing one is not changed. */
function makeHome({ uid, gid, home }: Account, root: string): void {
  const folder = path.join(root, home);
  if (existsSync(folder)) return;
  makeFolderSync(path.dirname(folder), 0o755, { recursive: true });
  makeFolderSync(folder, 0o700);
  const skeleton = path.join(root, "etc/skel");
  if (existsSync(skeleton)) cpSync(skeleton, folder, { recursive: true, verbatimSymlinks: true });
  for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
    const place = path.join(folder, name);
    if (!lstatSync(place).isSymbolicLink()) chownSync(place, uid, gid);
  }
  chownSync(folder, uid, gid);
}

/** Adds the keys that `~/.ssh/authorized_keys` does not have. */
function addKeys(keys: readonly string[], { uid, gid, home }: Account, root: string): void {
  const file = path.posix.join(home, ".ssh/authorized_keys");
  const folder = path.dirname(path.join(root, file));
  makeKeyFolder(folder, uid, gid);
  const old = readText(path.join(root, file));
  const lines = old.split("\n").filter((line) => line !== "");
  const content = [...new Set([...lines, ...keys])].map((line) => `${line}\n`).join("");
  if (content === old) return;
  const owner = `${uid}:${gid}`;
  writeWholeFile({ path: file, content: Buffer.from(content), mode: 0o600, owner }, root);
}

function makeKeyFolder(folder: string, uid: number, gid: number): void {
  const stat = lstatSync(folder, { throwIfNoEntry: false });
  // A user could have created a link, through which root would write to places that the user may not write to.
  if (stat && !stat.isDirectory()) throw failed(`"${folder}" is not a folder`);
  if (stat) return;
  makeFolderSync(path.dirname(folder), 0o755, { recursive: true });
  makeFolderSync(folder, 0o700);
  chownSync(folder, uid, gid);
}

function readText(place: string): string {
  try {
    return readFileSync(place, "utf8");
  } catch (error) {
    if (isSystemError(error, "ENOENT")) return "";
    throw error;
  }
}

function failed(reason: string): CloudInitError {
  return new CloudInitError("USER_DATA_APPLY_FAILED", reason);
}
