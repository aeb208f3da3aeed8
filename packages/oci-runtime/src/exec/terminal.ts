import { pause, runCommand, systemClock, type TerminalSize } from "@kip/base";

/**
 * A command line that runs crun in a new terminal, with the caller's pipes at the terminal's other end. Node has no
 * pseudo-terminals. `script` of util-linux creates one, writes no transcript, and exits with its child's code. The terminal
 * inside the container is a different one, created by crun.
 */
export function terminalCommand(crun: readonly string[]): readonly string[] {
  // `exec`, so that no shell remains in between. The words are paths and an ID, none of them from a user.
  const line = ["exec", ...crun].map(shellWord).join(" ");
  return ["/usr/bin/script", "-q", "-e", "-f", "-E", "never", "-O", "/dev/null", "-c", line];
}

/**
 * How long a start waits for the terminal's first size, milliseconds. Clients send it when their streams open. A program that
 * asks for the size immediately should get it.
 */
const firstSizeMs = 500;

/** The first size, if it arrives in time, and an iterator of the later ones. */
export async function firstSize(sizes: AsyncIterable<TerminalSize>): Promise<{
  readonly first: TerminalSize | undefined;
  readonly later: AsyncIterable<TerminalSize>;
}> {
  const iterator = sizes[Symbol.asyncIterator]();
  const next = iterator.next();
  const late = new AbortController();
  const result = await Promise.race([next, pause(firstSizeMs, systemClock, late.signal)]);
  late.abort();
  const first = typeof result === "object" && result.done !== true ? result.value : undefined;
  return { first: first && isSize(first) ? first : undefined, later: rest() };

  async function* rest(): AsyncGenerator<TerminalSize> {
    for (let item = await (first ? iterator.next() : next); item.done !== true;) {
      yield item.value;
      item = await iterator.next();
    }
  }
}

/**
 * Applies each new size to the container's terminal. Opens the terminal through the process's own descriptor, so the
 * container's file system does not matter. The kernel then signals (SIGWINCH) the foreground processes.
 */
export function watchResizes(sizes: AsyncIterable<TerminalSize>, pid: Promise<number>): void {
  void (async () => {
    const terminal = `/proc/${await pid}/fd/0`;
    for await (const size of sizes) if (isSize(size)) await setSize(terminal, size);
  })().catch(() => {}); // the process has ended or its client is gone, so there is nothing to resize
}

/** Whether a size from a client is valid for a terminal. */
export function isSize({ rows, columns }: TerminalSize): boolean {
  return [rows, columns].every((count) => Number.isInteger(count) && count > 0 && count < 65_536);
}

async function setSize(terminal: string, { rows, columns }: TerminalSize): Promise<void> {
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
