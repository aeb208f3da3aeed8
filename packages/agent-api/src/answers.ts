import type { Readable } from "node:stream";
import { decode, errorText, KipError, type Decoder } from "@kip/base";
import { plainText } from "./plain-text.ts";

const maxAnswerBytes = 1024 * 1024;

const decodeError = decode.object({
  code: decode.string,
  message: decode.string,
  retryable: decode.optional(decode.boolean),
});

/** Reads a JSON text of an agent. @throws {KipError} code `AGENT_ANSWER_INVALID` */
export function decodeAnswer<T>(text: string, decoder: Decoder<T>): T {
  try {
    return decoder(JSON.parse(text), "answer");
  } catch (error) {
    throw invalidAnswer(errorText(error), error);
  }
}

/** Reads a body of at most 1 MiB. @throws {KipError} code `AGENT_ANSWER_INVALID` */
export async function readText(stream: Readable): Promise<string> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > maxAnswerBytes) throw invalidAnswer(`it has more than ${maxAnswerBytes} bytes`);
    parts.push(chunk);
  }
  return Buffer.concat(parts).toString();
}

/** The error that an answer with an error status stands for. Never fails. */
export async function readError(stream: Readable, status: number): Promise<Error> {
  try {
    const answer = decodeAnswer(await readText(stream), decodeError);
    if (!/^AGENT_[A-Z_]{1,40}$/.test(answer.code)) return invalidAnswer(`status ${status}`);
    return new KipError(answer.code, plainText(answer.message, 4096), {
      retryable: answer.retryable ?? false,
    });
  } catch {
    return invalidAnswer(`status ${status}`);
  }
}

function invalidAnswer(reason: string, cause?: unknown): KipError {
  return new KipError("AGENT_ANSWER_INVALID", `Cannot read the answer of a cell: ${reason}`, {
    cause,
  });
}
