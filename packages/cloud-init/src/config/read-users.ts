import { nearest } from "@kip/base";
import type { CloudUser } from "./cloud-config.ts";
import { fieldOf, type ConfigField } from "./config-field.ts";

/** Names that Debian's useradd(8) accepts. */
const namePattern = /^[a-z_][a-z0-9_-]{0,31}$/;

const userKeys = [
  "name",
  "passwd",
  "hashed_passwd",
  "lock_passwd",
  "ssh_authorized_keys",
  "gecos",
  "homedir",
  "no_create_home",
  "primary_group",
  "groups",
  "system",
  "shell",
  "uid",
] as const;

/** Accepted, but without effect: a user always gets its own group, and no login records are created. */
const uselessKeys: readonly string[] = ["no_user_group", "no_log_init"];

/** Reads `users`, whose entries are maps or names. */
export function readUsers(field: ConfigField): readonly CloudUser[] {
  return field.items().flatMap((item) => {
    if (item.value === "default") {
      item.notes.warn(item.path, 'Skipped the user "default": the image of cells has none');
      return [];
    }
    const user = typeof item.value === "string" ? readName(item) : readUser(item);
    return user ? [user] : [];
  });
}

function readName(item: ConfigField): CloudUser | undefined {
  const name = checkedName(item);
  return name === undefined ? undefined : { name, sshAuthorizedKeys: [], groups: [] };
}

function readUser(item: ConfigField): CloudUser | undefined {
  const fields = item.entries();
  if (!fields) return undefined;
  const field = (name: (typeof userKeys)[number]): ConfigField => fieldOf(item, fields, name);
  for (const [key, each] of fields) warnOfKey(key, each);
  const name = checkedName(field("name"));
  const noHome = field("no_create_home").boolean();
  const primaryGroup = field("primary_group");
  const user = {
    passwordHash: readHash(fields.has("passwd") ? field("passwd") : field("hashed_passwd")),
    isLocked: field("lock_passwd").boolean(),
    sshAuthorizedKeys: readKeys(field("ssh_authorized_keys")),
    gecos: readPasswdField(field("gecos")),
    homedir: readPath(field("homedir")),
    hasHome: noHome === undefined ? undefined : !noHome,
    primaryGroup: primaryGroup.isAbsent ? undefined : checkedName(primaryGroup),
    groups: readGroups(field("groups")),
    isSystem: field("system").boolean(),
    shell: readPath(field("shell")),
    uid: readUid(field("uid")),
  };
  if (name === undefined) return undefined;
  const given = Object.entries(user).filter(([, value]) => value !== undefined);
  return { name, ...(Object.fromEntries(given) as typeof user) }; // the same keys
}

function warnOfKey(key: string, field: ConfigField): void {
  if (userKeys.some((known) => known === key)) return;
  const near = nearest(key, userKeys);
  const reason = uselessKeys.includes(key)
    ? "has no effect on a cell"
    : near === undefined
      ? "not known here"
      : `did you mean "${near}"?`;
  field.notes.warn(field.path, `Skipped "${key.slice(0, 100)}" of a user: ${reason}`);
}

function checkedName(field: ConfigField): string | undefined {
  const name = field.text();
  if (name !== undefined && namePattern.test(name)) return name;
  return field.problem("is not a name of up to 32 lower-case letters, digits, - and _");
}

function readHash(field: ConfigField): string | undefined {
  const hash = field.line();
  if (hash === undefined || /^(?:[*!]|[$./A-Za-z0-9_=,-]{13,})$/.test(hash)) return hash;
  return field.problem("is not a hash of a password, as mkpasswd(1) makes it");
}

/** Reads a field of passwd(5), which cannot contain a colon. */
function readPasswdField(field: ConfigField): string | undefined {
  const text = field.line();
  return text?.includes(":") ? field.problem("has a colon") : text;
}

function readPath(field: ConfigField): string | undefined {
  const path = readPasswdField(field);
  if (path === undefined || (path.startsWith("/") && !path.split("/").includes(".."))) return path;
  return field.problem('is not an absolute path without ".."');
}

function readUid(field: ConfigField): number | undefined {
  const text = field.text();
  if (text === undefined) return undefined;
  const uid = /^\d{1,10}$/.test(text) ? Number(text) : -1;
  return uid >= 0 && uid < 2 ** 32 - 1 ? uid : field.problem("is not the number of a user");
}

/** Reads a list, or a text with commas. */
function readGroups(field: ConfigField): readonly string[] {
  if (field.isAbsent) return [];
  const names = Array.isArray(field.value)
    ? field.items().map((item) => item.text() ?? "")
    : (field.text() ?? "").split(",");
  const groups = names.map((name) => name.trim()).filter((name) => name !== "");
  const wrong = groups.find((name) => !namePattern.test(name));
  if (wrong !== undefined)
    field.problem(`has "${wrong.slice(0, 100)}", which is not a group's name`);
  return wrong === undefined ? groups : [];
}

/** Reads keys in the format of authorized_keys(5): one, or a list. */
export function readKeys(field: ConfigField): readonly string[] {
  const items = typeof field.value === "string" ? [field] : field.items();
  return items.flatMap((item) => {
    const key = item.text()?.trim();
    if (key === undefined || key === "") return [];
    return key.includes("\n") ? (item.problem("has more than one key"), []) : [key];
  });
}
