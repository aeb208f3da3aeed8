import { writeFileSync } from "node:fs";
import { errorText } from "@kip/base";
import type { CloudConfig } from "../config/cloud-config.ts";
import { CloudInitError } from "../errors.ts";
import type { InstanceAddresses } from "../instance-data.ts";
import { writeWholeFile } from "./write-whole-file.ts";

/** Options of {@link applyUserData}. */
export interface ApplyUserDataOptions {
  /** Prefix of every path, and of `/etc/passwd` for lookups. For tests. @default "/" */
  readonly root?: string | undefined;
  /** Public SSH keys from the cloud, which root also gets. @default none */
  readonly publicKeys?: readonly string[] | undefined;
  /** Written to `/etc/environment`. @default the file is not changed */
  readonly addresses?: InstanceAddresses | undefined;
  /** Sets the machine's name. @default writes `/etc/hostname` and sets the kernel's name */
  readonly setHostname?: ((name: string) => Promise<void>) | undefined;
  /** Folder for programs to run, below the root. @default "/var/lib/milpa-cloudinit" */
  readonly workspace?: string | undefined;
}

/** Result of {@link applyUserData}. */
export interface ApplyResult {
  /** Paths written, in order. */
  readonly written: readonly string[];
  /** One error for each entry that failed. The entries after it were still applied. */
  readonly errors: readonly CloudInitError[];
}

/** Folder for the record and for programs to run, as in the original. */
export const defaultWorkspace = "/var/lib/milpa-cloudinit";

/**
 * Applies user data: files and `/etc/environment`, then host name, users, keys of root, commands, and scripts.
 *
 * Each file is written atomically, with its owner and mode. Never throws for an entry: failures are in `errors`, with the code
 * `USER_DATA_APPLY_FAILED`.
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
  // Modules that most user data does not need are loaded on demand, because each one delays a cell's start.
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
  // Write the kernel's file instead of running a program, because a pod is waiting.
  writeFileSync("/proc/sys/kernel/hostname", name);
}
