import type { Duplex } from "node:stream";
import { decode, type Decoder } from "@kip/base";
import { decodeSums } from "@kip/network-view";
import { decodeAnswer } from "./answers.ts";
import { AgentError } from "./errors.ts";
import { writeTo } from "./framing.ts";

/** What a cell is to be sent, one change after the other. */
export interface NetworkChanges {
  /**
   * The next change, as lines of `network-view` in pieces; waits until there is one. Changes are numbered from 1.
   *
   * @throws the signal's reason
   */
  next(signal: AbortSignal): Promise<readonly Buffer[]>;
}

/** Longest line of an agent, bytes: 64 sums of up to 15 digits. */
const maxAnswerBytes = 4096;

/** Given to a connection at once. */
const partBytes = 64 * 1024;

const lineEnd = 0x0a;

/** The agent's first line. */
export interface NetworkHello {
  /** Sums of the Services that the cell has. */
  readonly sums: readonly number[];
  /** What the agent knows of policies, see `policyVersion` of network-view. @default 1 */
  readonly policyVersion?: number | undefined;
}

const decodeHello: Decoder<NetworkHello> = decode.object({
  sums: decodeSums,
  policyVersion: decode.optional(decode.integer),
});

/** Decodes every other line of the agent: the number of the change that is in force. */
const decodeApplied = decode.object({ applied: decode.integer });

/**
 * Sends changes to an agent, each when the one before is in force: a slow cell holds up nothing but itself. The stream is
 * closed when this ends.
 *
 * @param changesFor gives the changes for a cell that has begun like this
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
  const answers = answerLines(stream);
  try {
    const changes = changesFor(decodeAnswer(await nextLine(answers), decodeHello));
    for (let number = 1; ; number++) {
      for (const piece of await changes.next(open)) await writeInParts(stream, piece);
      const { applied } = decodeAnswer(await nextLine(answers), decodeApplied);
      if (applied !== number) throw invalid(`it confirms change ${applied}, not ${number}`);
    }
  } finally {
    stream.destroy();
  }
}

/** Pieces are shared by all cells, but the connection encrypts a copy of what it is given: that must not be all of a piece. */
async function writeInParts(stream: Duplex, piece: Buffer): Promise<void> {
  for (let start = 0; start < piece.length; start += partBytes)
    await writeTo(stream, piece.subarray(start, start + partBytes));
}

async function nextLine(lines: AsyncIterator<string>): Promise<string> {
  const { value, done } = await lines.next();
  if (done === true) throw invalid("it ended");
  return value;
}

async function* answerLines(stream: AsyncIterable<Buffer>): AsyncGenerator<string, undefined> {
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of stream) {
    rest = Buffer.concat([rest, chunk]);
    for (let end = rest.indexOf(lineEnd); end >= 0; end = rest.indexOf(lineEnd)) {
      yield rest.subarray(0, end).toString();
      rest = rest.subarray(end + 1);
    }
    if (rest.length > maxAnswerBytes) throw invalid(`a line has more than ${maxAnswerBytes} bytes`);
  }
  return undefined;
}

function invalid(reason: string): AgentError {
  return new AgentError(
    "AGENT_ANSWER_INVALID",
    `Cannot read what a cell says of its network: ${reason}`,
  );
}
