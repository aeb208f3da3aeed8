import type { Duplex } from "node:stream";
import { decode, type Decoder } from "@kip/base";
import { decodeSums } from "@kip/network-view";
import { decodeAnswer } from "./answers.ts";
import { AgentError } from "./errors.ts";
import { writeTo } from "./framing.ts";

/** The changes for a cell, one after the other. */
export interface NetworkChanges {
  /**
   * The next change, as pieces of lines in the format of `network-view`. Waits until there is one. Changes are numbered from 1.
   *
   * @throws the signal's reason
   */
  next(signal: AbortSignal): Promise<readonly Buffer[]>;
}

/** Maximum length of a line from an agent, bytes: 64 sums of up to 15 digits. */
const maxAnswerBytes = 4096;

/** Bytes that are written to a connection at once. */
const partBytes = 64 * 1024;

const lineEnd = 0x0a;
const noBytes = Buffer.alloc(0);

/** The agent's first line. */
export interface NetworkHello {
  /** Checksums of the Services that the cell has. */
  readonly sums: readonly number[];
  /** Version of policies that the agent supports, see `policyVersion` of network-view. @default 1 */
  readonly policyVersion?: number | undefined;
}

const decodeHello: Decoder<NetworkHello> = decode.object({
  sums: decodeSums,
  policyVersion: decode.optional(decode.integer),
});

/** Decodes the agent's other lines: the number of the change that is in force. */
const decodeApplied = decode.object({ applied: decode.integer });

/**
 * Sends changes to an agent. Each is sent when the one before is in force, so a slow cell only delays itself. Closes the stream
 * at its end.
 *
 * @param changesFor returns the changes for a cell with this first message
 * @throws {AgentError} code `AGENT_ANSWER_INVALID`; the signal's reason
 */
export async function sendNetwork(
  stream: Duplex,
  changesFor: (hello: NetworkHello) => NetworkChanges,
  signal: AbortSignal,
): Promise<void> {
  const closed = new AbortController();
  stream.once("close", () => closed.abort(invalid("it ended")));
  const open = AbortSignal.any([signal, closed.signal]);
  const answers = new AnswerLines(stream);
  try {
    const changes = changesFor(decodeAnswer(await answers.next(), decodeHello));
    for (let number = 1; ; number++) {
      await writeNext(stream, changes, open);
      const { applied } = decodeAnswer(await answers.next(), decodeApplied);
      if (applied !== number) throw invalid(`it confirms change ${applied}, not ${number}`);
    }
  } finally {
    stream.destroy();
  }
}

/**
 * Sends the next change. This is a separate function, because a loop over all changes would keep the last piece of each in
 * memory until the next one.
 */
async function writeNext(
  stream: Duplex,
  changes: NetworkChanges,
  signal: AbortSignal,
): Promise<void> {
  for (const piece of await changes.next(signal)) await writeInParts(stream, piece);
}

/**
 * Writes a piece in parts. All cells share the pieces, but each connection encrypts a copy of what is written, which must not
 * be a whole piece.
 */
async function writeInParts(stream: Duplex, piece: Buffer): Promise<void> {
  for (let start = 0; start < piece.length; start += partBytes)
    await writeTo(stream, piece.subarray(start, start + partBytes));
}

/**
 * Reads lines from an agent. It keeps none of the stream's chunks between two lines. A chunk is a small part of a 64 KiB pool,
 * and a loop or generator would keep a reference to it for as long as the cell sends nothing.
 */
class AnswerLines {
  readonly #chunks: AsyncIterator<Buffer>;
  /** Requested in advance, because an iterator keeps its last result until the next request. */
  #next: Promise<IteratorResult<Buffer>>;
  readonly #lines: string[] = [];
  #rest: Buffer = noBytes;

  constructor(stream: AsyncIterable<Buffer>) {
    this.#chunks = stream[Symbol.asyncIterator]();
    this.#next = this.#askNext();
  }

  /** @throws {AgentError} code `AGENT_ANSWER_INVALID` */
  async next(): Promise<string> {
    for (;;) {
      const line = this.#lines.shift();
      if (line !== undefined) return line;
      await this.#read();
    }
  }

  async #read(): Promise<void> {
    if (this.#rest.length > maxAnswerBytes)
      throw invalid(`a line has more than ${maxAnswerBytes} bytes`);
    const next = await this.#next;
    this.#next = this.#askNext();
    if (next.done === true) throw invalid("it ended");
    let rest = Buffer.concat([this.#rest, next.value]);
    for (let end = rest.indexOf(lineEnd); end >= 0; end = rest.indexOf(lineEnd)) {
      this.#lines.push(rest.subarray(0, end).toString());
      rest = rest.subarray(end + 1);
    }
    this.#rest = rest.length === 0 ? noBytes : rest;
  }

  #askNext(): Promise<IteratorResult<Buffer>> {
    const next = this.#chunks.next();
    next.catch(() => {}); // the caller that awaits it handles the error
    return next;
  }
}

function invalid(reason: string): AgentError {
  return new AgentError(
    "AGENT_ANSWER_INVALID",
    `Cannot read what a cell says of its network: ${reason}`,
  );
}
