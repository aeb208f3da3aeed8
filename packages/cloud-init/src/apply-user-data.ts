import { writeFileSync } from "node:fs";
import { errorText, runCommand } from "@kip/base";
import type { CloudConfig } from "./user-data.ts";
import { writeWholeFile } from "./write-whole-file.ts";
import { CloudInitError } from "./errors.ts";

/** Options of {@link applyUserData}. */
export interface ApplyUserDataOptions {
  /** Put before every path, and where `/etc/passwd` is looked up; for tests. @default "/" */
  readonly root?: string | undefined;
  /** Sets the machine's name. @default writes `/etc/hostname` and tells the kernel */
  readonly setHostname?: ((name: string) => Promise<void>) | undefined;
  /** Runs one entry of `runcmd`. @default runs it on this machine */
  readonly run?: ((file: string, args: readonly string[]) => Promise<unknown>) | undefined;
}

/** What {@link applyUserData} did. */
export interface ApplyResult {
  /** Paths written, in order. */
  readonly written: readonly string[];
  /** One for each entry that failed; the entries after it were applied all the same. */
  readonly errors: readonly CloudInitError[];
}

/**
 * Does what the user data asks: files, then the host name, then commands.
 *
 * A file appears whole, with its owner and mode, or not at all. Never throws for an entry: failures are in `errors`,
 * each with the code `USER_DATA_APPLY_FAILED`.
 */
export async function applyUserData(
  config: CloudConfig,
  options: ApplyUserDataOptions = {},
): Promise<ApplyResult> {
  const root = options.root ?? "/";
  const run = options.run ?? (async (file, args) => await runCommand(file, args));
  const written: string[] = [];
  const errors: CloudInitError[] = [];
  for (const file of config.writeFiles) {
    await attempt(`write file "${file.path}"`, () => {
      writeWholeFile(file, root);
      written.push(file.path);
    });
  }
  const name = config.hostname;
  if (name !== undefined) {
    await attempt(`set host name "${name}"`, async () => {
      if (options.setHostname) return await options.setHostname(name);
      const content = Buffer.from(`${name}\n`);
      writeWholeFile({ path: "/etc/hostname", content, mode: 0o644 }, root);
      // The kernel's own file instead of the program: no process at a time when a pod waits.
      writeFileSync("/proc/sys/kernel/hostname", name);
    });
  }
  for (const command of config.runCommands) {
    const [file = "true", ...args] = typeof command === "string" ? ["sh", "-c", command] : command;
    await attempt(`run command "${[file, ...args].join(" ")}"`, async () => {
      await run(file, args);
    });
  }
  return { written, errors };

  async function attempt(what: string, action: () => void | Promise<void>): Promise<void> {
    try {
      await action();
    } catch (cause) {
      const message = `Cannot ${what}: ${errorText(cause)}`;
      errors.push(new CloudInitError("USER_DATA_APPLY_FAILED", message, { cause }));
    }
  }
}
