import type { Readable } from "node:stream";
import { bytesOf, decode, errorText, GrowingBuffer, type Decoder } from "@kip/base";
import { AgentError, type AgentErrorCode } from "./errors.ts";
import { plainText } from "./plain-text.ts";

/** Maximum size of a document from an agent, bytes, unless it has a limit of its own. */
const maxAnswerBytes = 256 * 1024;
/** Maximum size of the statistics, bytes. A thousand containers with all figures need three quarters of it. */
export const maxStatsBytes = 2 * 1024 * 1024;
const maxErrorBytes = 16 * 1024;
/** Maximum length of the text of an agent's error, UTF-16 units. Kip does not show more. */
export const maxErrorLength = 4096;

const decodeError = decode.object({
  code: decode.string,
  message: decode.string,
  retryable: decode.optional(decode.boolean),
});

/** Decodes a JSON text from an agent. @throws {AgentError} code `AGENT_ANSWER_INVALID` */
export function decodeAnswer<T>(text: string, decoder: Decoder<T>): T {
  try {
    return decoder(JSON.parse(text), "answer");
  } catch (error) {
    throw invalidAnswer(errorText(error), error);
  }
}

/**
 * Reads a body.
 *
 * @param maxBytes @default 256 KiB
 * @throws {AgentError} code `AGENT_ANSWER_INVALID` if it is longer
 */
export async function readText(stream: Readable, maxBytes = maxAnswerBytes): Promise<string> {
  const body = new GrowingBuffer();
  for await (const chunk of bytesOf(stream)) {
    if (body.length + chunk.length > maxBytes)
      throw invalidAnswer(`it has more than ${maxBytes} bytes`);
    body.append(chunk);
  }
  return body.bytes.toString();
}

/** The error for a response with an error status. Never throws. */
export async function readError(stream: Readable, status: number): Promise<Error> {
  try {
    const answer = decodeAnswer(await readText(stream, maxErrorBytes), decodeError);
    if (!/^AGENT_[A-Z_]{1,40}$/.test(answer.code)) return invalidAnswer(`status ${status}`);
    const code = answer.code as AgentErrorCode; // or a code of another version, which no caller checks for
    return new AgentError(code, plainText(answer.message, maxErrorLength), {
      retryable: answer.retryable ?? false,
    });
  } catch {
    return invalidAnswer(`status ${status}`);
  }
}

function invalidAnswer(reason: string, cause?: unknown): AgentError {
  return new AgentError("AGENT_ANSWER_INVALID", `Cannot read the answer of a cell: ${reason}`, {
    cause,
  });
}
