import { writeFileSync } from "node:fs";
import { errorText } from "@kip/base";
import type { CloudConfig } from "../config/cloud-config.ts";
import { CloudInitError } from "../errors.ts";
import type { InstanceAddresses } from "../instance-data.ts";
import { writeWholeFile } from "./write-whole-file.ts";

/** Options of {@link applyUserData}. */
export interface ApplyUserDataOptions {
  /** Put before every path, and where `/etc/passwd` is looked up; for tests. @default "/" */
  readonly root?: string | undefined;
  /** Public SSH keys that the cloud has for this machine; root gets them, too. @default none */
  readonly publicKeys?: readonly string[] | undefined;
  /** Written to `/etc/environment`. @default that file stays as it is */
  readonly addresses?: InstanceAddresses | undefined;
  /** Sets the machine's name. @default writes `/etc/hostname` and tells the kernel */
  readonly setHostname?: ((name: string) => Promise<void>) | undefined;
  /** Folder for what is run, below the root. @default "/var/lib/milpa-cloudinit" */
  readonly workspace?: string | undefined;
}

/** What {@link applyUserData} did. */
export interface ApplyResult {
  /** Paths written, in order. */
  readonly written: readonly string[];
  /** One for each entry that failed; the entries after it were applied all the same. */
  readonly errors: readonly CloudInitError[];
}

/** Where the record of what was applied, and what is run, is kept: as the original has it. */
export const defaultWorkspace = "/var/lib/milpa-cloudinit";

/**
 * Does what the user data asks: files, `/etc/environment`, then the host name, users, keys of root, commands, scripts.
 *
 * A file appears whole, with its owner and mode, or not at all. Never throws for an entry: failures are in `errors`,
 * each with the code `USER_DATA_APPLY_FAILED`.
 */
export async function applyUserData(
  config: CloudConfig,
  options: ApplyUserDataOptions = {},
): Promise<ApplyResult> {
  const { root = "/", publicKeys = [], addresses, workspace = defaultWorkspace } = options;
  const written: string[] = [];
  const errors: CloudInitError[] = [];
  for (const file of config.writeFiles) {
    await attempt(`write file "${file.path}"`, () => {
      writeWholeFile(file, root);
      written.push(file.path);
    });
  }
  // What most user data does not ask for is not loaded: each module is a part of a cell's start.
  if (addresses) {
    const { writeEnvironment } = await import("./environment-file.ts");
    await attempt('write "/etc/environment"', () => writeEnvironment(addresses, root));
  }
  const name = config.hostname;
  if (name !== undefined)
    await attempt(`set host name "${name}"`, async () => await setHostname(name, options));
  const keys = [...config.sshAuthorizedKeys, ...publicKeys];
  if (config.users.length > 0 || keys.length > 0) {
    const { applyUser, addRootKeys } = await import("./apply-users.ts");
    for (const user of config.users)
      await attempt(`set up user "${user.name}"`, () => applyUser(user, root));
    if (keys.length > 0) await attempt("add the SSH keys of root", () => addRootKeys(keys, root));
  }
  if (config.runCommands.length > 0 || config.scripts.length > 0) {
    const { runCommands, runScripts } = await import("./run-commands.ts");
    const failures = [
      ...(await runCommands(config.runCommands, { root, workspace })),
      ...(await runScripts(config.scripts, { root, workspace })),
    ];
    for (const { what, reason } of failures) fail(what, reason);
  }
  return { written, errors };

  async function attempt(what: string, action: () => void | Promise<void>): Promise<void> {
    try {
      await action();
    } catch (cause) {
      fail(what, errorText(cause), cause);
    }
  }

  function fail(what: string, reason: string, cause?: unknown): void {
    const message = `Cannot ${what}: ${reason}`;
    errors.push(new CloudInitError("USER_DATA_APPLY_FAILED", message, { cause }));
  }
}

async function setHostname(
  name: string,
  { root = "/", setHostname: set }: ApplyUserDataOptions,
): Promise<void> {
  if (set) return await set(name);
  const content = Buffer.from(`${name}\n`);
  writeWholeFile({ path: "/etc/hostname", content, mode: 0o644 }, root);
  // The kernel's own file instead of the program: no process at a time when a pod waits.
  writeFileSync("/proc/sys/kernel/hostname", name);
}
