import { nearest } from "@kip/base";
import type { InstanceAddresses } from "../instance-data.ts";
import type { CloudConfig } from "./cloud-config.ts";
import { ConfigField, ConfigNotes, fieldOf, type ConfigNote } from "./config-field.ts";
import { contentBudget, readFiles } from "./read-files.ts";
import { readKeys, readUsers } from "./read-users.ts";
import { substituteAddresses } from "./substitute.ts";

/** Keys of a cloud-config that have an effect. They may be written with dashes. */
export const cloudConfigKeys = [
  "hostname",
  "write_files",
  "milpa_files",
  "users",
  "ssh_authorized_keys",
  "runcmd",
] as const;

type Key = (typeof cloudConfigKeys)[number];

/** A cloud-config with its problems. */
export interface ReadCloudConfig {
  /** The valid part if there are problems. Without warnings and scripts. */
  readonly config: CloudConfig;
  readonly problems: readonly ConfigNote[];
  readonly warnings: readonly ConfigNote[];
}

/**
 * Reads the values of a cloud-config. An unknown key results in a warning, because a fleet's user data may have keys for other
 * readers. An invalid value is a problem.
 *
 * @param value parsed YAML or JSON
 * @param addresses values for names such as `$private_ipv4` @default names are not replaced
 */
export function readCloudConfig(value: unknown, addresses?: InstanceAddresses): ReadCloudConfig {
  const notes = new ConfigNotes();
  const root = new ConfigField(value ?? {}, [], notes);
  const isMap = typeof root.value === "object" && !Array.isArray(root.value);
  if (!isMap) notes.problems.push({ path: [], message: "its body is not a map of keys" });
  const fields = (isMap ? root.entries() : undefined) ?? new Map<string, ConfigField>();
  const field = (key: Key): ConfigField => fieldOf(root, fields, key);
  const substitute = (text: string): string =>
    addresses ? substituteAddresses(text, addresses) : text;
  for (const [key, each] of fields) warnOfKey(key, each);
  const budget = contentBudget();
  const hostname = readHostname(field("hostname"), substitute);
  const config: CloudConfig = {
    ...(hostname === undefined ? {} : { hostname }),
    writeFiles: [
      ...readFiles(field("write_files"), budget, substitute),
      ...readFiles(field("milpa_files"), budget, substitute),
    ],
    users: readUsers(field("users")),
    sshAuthorizedKeys: readKeys(field("ssh_authorized_keys")),
    runCommands: readCommands(field("runcmd"), substitute),
    scripts: [],
    warnings: [],
  };
  return { config, problems: notes.problems, warnings: notes.warnings };
}

function warnOfKey(key: string, field: ConfigField): void {
  if (cloudConfigKeys.some((known) => known === key)) return;
  const near = nearest(key.slice(0, 100), cloudConfigKeys);
  const reason = near === undefined ? "not known here" : `did you mean "${near}"?`;
  field.notes.warn(field.path, `Skipped "${key.slice(0, 100)}" of the user data: ${reason}`);
}

function readHostname(
  field: ConfigField,
  substitute: (text: string) => string,
): string | undefined {
  const text = field.text();
  const name = text === undefined ? undefined : substitute(text);
  if (name === undefined || /^[A-Za-z0-9][A-Za-z0-9.-]{0,63}$/.test(name)) return name;
  return field.problem("is not a host name of up to 64 letters, digits, dots and dashes");
}

/** Reads commands: a text for a shell, or a list of a program and its arguments. */
function readCommands(
  field: ConfigField,
  substitute: (text: string) => string,
): readonly (string | readonly string[])[] {
  const commands: (string | readonly string[])[] = [];
  for (const item of field.items()) {
    if (Array.isArray(item.value)) {
      const words = item.items().map((word) => substitute(word.text() ?? ""));
      if (words.length === 0) item.problem("is empty");
      else commands.push(words);
    } else if (item.isAbsent) item.problem("is empty");
    else if (typeof item.value === "object")
      item.problem('is a map; a command with ": " needs quotes around all of it');
    else commands.push(substitute(item.text() ?? ""));
  }
  return commands;
}
