import type { Readable } from "node:stream";
import type { TerminalSize } from "@kip/base";

/** Maximum length of a resize's JSON document, bytes. */
const maxDocumentBytes = 1024;
/** Maximum number of rows or columns, a limit of the terminal ioctl. */
const maxSize = 65_535;

/**
 * Terminal sizes from the client, sent as consecutive JSON documents: `{"Width":80,"Height":24}`. A slow reader only gets the
 * newest size. Skips invalid documents. Ends with the stream.
 */
export async function* terminalResizes(stream: Readable): AsyncGenerator<TerminalSize, void, void> {
  const newest = new NewestSize();
  let rest: Buffer = Buffer.alloc(0);
  stream.on("data", (chunk: Buffer) => {
    // Only the newest size counts. A chunk may have millions of documents, and parsing all of them would block the event loop.
    const tail = Buffer.concat([rest, chunk.subarray(-maxDocumentBytes)]).subarray(
      -maxDocumentBytes,
    );
    const end = tail.lastIndexOf("}");
    rest = tail.subarray(end + 1);
    if (end < 0) return;
    const begin = Math.max(0, tail.lastIndexOf("{", end));
    const size = parseSize(tail.toString("utf8", begin, end + 1));
    if (size) newest.put(size);
  });
  stream.once("end", () => newest.end());
  stream.once("close", () => newest.end());
  for (let size = await newest.take(); size !== undefined; size = await newest.take()) yield size;
}

/** Holds the newest size until it is taken. */
class NewestSize {
  #size: TerminalSize | undefined;
  #isOver = false;
  #change = Promise.withResolvers<void>();

  put(size: TerminalSize): void {
    this.#size = size;
    this.#change.resolve();
  }

  end(): void {
    this.#isOver = true;
    this.#change.resolve();
  }

  /** Waits for a size. Undefined at the end. */
  async take(): Promise<TerminalSize | undefined> {
    await this.#change.promise;
    const size = this.#size;
    this.#size = undefined;
    if (!this.#isOver) this.#change = Promise.withResolvers();
    return size;
  }
}

function parseSize(text: string): TerminalSize | undefined {
  try {
    const document = JSON.parse(text) as { Width?: unknown; Height?: unknown } | null;
    const { Width: columns, Height: rows } = document ?? {};
    return isSize(columns) && isSize(rows) ? { columns, rows } : undefined;
  } catch {
    return undefined; // not JSON: skipped, as documented
  }
}

function isSize(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value) && value > 0 && value <= maxSize;
}
