import { existsSync } from "node:fs";
import { runCommand } from "./run-command.ts";

/** The path of busybox on Debian. */
export const busybox = "/bin/busybox";

/** The type of {@link mount} and its replacements. */
export type Mount = typeof mount;

/**
 * Mounts with mount(8), because Node has no call for it. Prefers busybox: without shared libraries it starts in a third of the
 * time.
 *
 * The kernel resolves the paths. A source such as `/proc/<pid>/fd/<number>` means the file that is open there, whatever has its
 * name by now.
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

/** Unmounts with umount(8). @throws {CommandError} code `COMMAND_FAILED` */
export async function unmount(args: readonly string[]): Promise<void> {
  if (existsSync(busybox)) await runCommand(busybox, ["umount", ...args]);
  else await runCommand("umount", args);
}

/** The command line of {@link mount}. */
export function mountCommand(args: readonly string[], hasBusybox: boolean): readonly string[] {
  if (hasBusybox) return [busybox, "mount", ...args];
  // Without this flag, util-linux's mount resolves the path and looks up the result again (CVE-2021-25741).
  return ["mount", "--no-canonicalize", ...args];
}
