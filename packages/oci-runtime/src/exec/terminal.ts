import { pause, runCommand, systemClock, type TerminalSize } from "@kip/base";

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
 * How long a start waits for the first size of its terminal, milliseconds. Clients send it as soon as
 * their streams are open; a program that asks for the size first thing should find it.
 */
const firstSizeMs = 500;

/** The first size, if it comes in time, and an iterator of those after it. */
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
 * Gives the container's terminal each new size. Opened through the process's own descriptor, the
 * terminal is found whatever the container's file system looks like; the kernel then signals
 * (SIGWINCH) the processes in its foreground.
 */
export function watchResizes(sizes: AsyncIterable<TerminalSize>, pid: Promise<number>): void {
  void (async () => {
    const terminal = `/proc/${await pid}/fd/0`;
    for await (const size of sizes) if (isSize(size)) await setSize(terminal, size);
  })().catch(() => {}); // the process ended, or its client went away: there is nothing left to size
}

/** Whether a size, which comes from a client, is one that a terminal can have. */
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
