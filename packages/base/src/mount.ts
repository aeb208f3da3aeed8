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
 * @param args what all mount programs understand: `-t`, `-o` with `bind` for bind mounts, source, target
 * @throws {KipError} code `COMMAND_FAILED`
 */
export async function mount(
  args: readonly string[],
  options: { readonly cwd?: string } = {},
): Promise<void> {
  await runBusybox("mount", args, options);
}

/** Unmounts by umount(8). @throws {KipError} code `COMMAND_FAILED` */
export async function unmount(args: readonly string[]): Promise<void> {
  await runBusybox("umount", args, {});
}

async function runBusybox(
  applet: string,
  args: readonly string[],
  options: { readonly cwd?: string },
): Promise<void> {
  if (existsSync(busybox)) await runCommand(busybox, [applet, ...args], options);
  else await runCommand(applet, args, options);
}
