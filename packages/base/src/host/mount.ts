import { existsSync } from "node:fs";
import { runCommand } from "./run-command.ts";

/** Where Debian has busybox. */
export const busybox = "/bin/busybox";

/** Mounts something; {@link mount} or what does the same. */
export type Mount = typeof mount;

/**
 * Mounts by mount(8), as Node has no call for it: by busybox's where there is one, since a program
 * without libraries starts in a third of the time.
 *
 * Paths are the kernel's to resolve: a source such as `/proc/<pid>/fd/<number>` stands for what is open there, whatever
 * has its name by now.
 *
 * @param args what all mount programs understand: `-t`, `-o` with `bind` for bind mounts, source, target
 * @throws {CommandError} code `COMMAND_FAILED`
 */
export async function mount(
  args: readonly string[],
  options: { readonly cwd?: string } = {},
): Promise<void> {
  const [file = "", ...all] = mountCommand(args, existsSync(busybox));
  await runCommand(file, all, options);
}

/** Unmounts by umount(8). @throws {CommandError} code `COMMAND_FAILED` */
export async function unmount(args: readonly string[]): Promise<void> {
  if (existsSync(busybox)) await runCommand(busybox, ["umount", ...args]);
  else await runCommand("umount", args);
}

/** The command line of {@link mount}. */
export function mountCommand(args: readonly string[], hasBusybox: boolean): readonly string[] {
  if (hasBusybox) return [busybox, "mount", ...args];
  // util-linux's would turn a path into the text that it stands for, and look that up again (CVE-2021-25741).
  return ["mount", "--no-canonicalize", ...args];
}
