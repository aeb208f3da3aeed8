import { runCommand, type TerminalSize } from "@kip/base";

/**
 * A command line that runs crun on a terminal of its own, with the caller's pipes at its other end.
 * Node has no pseudo-terminals; `script` of util-linux makes one, keeps no record of the session and
 * exits like its child. The terminal inside of the container is another one, made by crun.
 */
export function terminalCommand(crun: readonly string[]): readonly string[] {
  // `exec`, so that no shell stays in between. None of the words is a user's: paths of ours and an ID.
  const line = ["exec", ...crun].map(shellWord).join(" ");
  return ["/usr/bin/script", "-q", "-e", "-f", "-E", "never", "-O", "/dev/null", "-c", line];
}

/**
 * Gives the container's terminal each new size. Opened through the process's own descriptor, the
 * terminal is found whatever the container's file system looks like; the kernel then signals
 * (SIGWINCH) whoever is in its foreground.
 */
export function watchResizes(sizes: AsyncIterable<TerminalSize>, pid: Promise<number>): void {
  void (async () => {
    const terminal = `/proc/${await pid}/fd/0`;
    for await (const { rows, columns } of sizes) await setSize(terminal, rows, columns);
  })().catch(() => {}); // the process ended, or its client went away: there is nothing left to size
}

async function setSize(terminal: string, rows: number, columns: number): Promise<void> {
  if (![rows, columns].every((count) => Number.isInteger(count) && count > 0 && count < 65_536))
    return;
  await runCommand("/usr/bin/stty", [
    "-F",
    terminal,
    "rows",
    String(rows),
    "cols",
    String(columns),
  ]);
}

function shellWord(word: string): string {
  return /^[\w./=:@-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
}
