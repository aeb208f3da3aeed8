import { PassThrough } from "node:stream";
import { busybox, mount, type Mount } from "./mount.ts";
import { runCommand } from "./run-command.ts";

/**
 * Starts a shell that waits to do one mount. That mount is faster, because this process does not start a program for it. For a
 * process with much memory, starting one takes several times as long as the mount. Later mounts are ordinary ones, and so are
 * all mounts on a machine without busybox.
 *
 * @returns once the shell is waiting
 */
export async function waitingMount(): Promise<Mount> {
  const input = new PassThrough();
  const answer = Promise.withResolvers<void>();
  const shell = runCommand(busybox, ["sh"], { input, onOutput: () => answer.resolve() });
  input.write("echo ready\n");
  const isThere = await Promise.race([answer.promise, shell]).then(
    () => true,
    () => false,
  );
  if (!isThere) return mount;
  shell.catch(() => {}); // the caller of the mount gets the error
  return async (args, options = {}) => {
    if (input.writableEnded) return await mount(args, options);
    const words = [busybox, "mount", ...args].map(quote).join(" ");
    input.end(`cd ${quote(options.cwd ?? "/")} && exec ${words}\n`);
    await shell;
  };
}

/** Quotes a word for the shell. */
function quote(word: string): string {
  return `'${word.replaceAll("'", String.raw`'\''`)}'`;
}
