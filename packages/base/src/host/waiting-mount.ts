import { PassThrough } from "node:stream";
import { busybox, mount, type Mount } from "./mount.ts";
import { runCommand } from "./run-command.ts";

/**
 * Starts a shell that waits for one mount, which is then done without the start of a program from here:
 * that takes a process with much memory several times as long as the mount. Any later mount is an
 * ordinary one, and so are all where there is no busybox.
 *
 * @returns once the shell waits
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
  shell.catch(() => {}); // the one that waits for the mount gets it
  return async (args, options = {}) => {
    if (input.writableEnded) return await mount(args, options);
    const words = [busybox, "mount", ...args].map(quote).join(" ");
    input.end(`cd ${quote(options.cwd ?? "/")} && exec ${words}\n`);
    await shell;
  };
}

/** A word that the shell takes as it is. */
function quote(word: string): string {
  return `'${word.replaceAll("'", String.raw`'\''`)}'`;
}
