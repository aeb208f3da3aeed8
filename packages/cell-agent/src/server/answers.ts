import type { ServerHttp2Stream } from "node:http2";
import { AgentError, maxBodyBytes, type AgentErrorCode } from "@kip/agent-api";
import { errorText, isRetryable, DecodeError } from "@kip/base";

/** HTTP status by error code. All other codes are 500. */
const statusByCode: Readonly<Partial<Record<AgentErrorCode, number>>> = {
  AGENT_REQUEST_INVALID: 400,
  AGENT_FORBIDDEN: 403,
  AGENT_NOT_FOUND: 404,
  AGENT_NO_POD: 404,
  AGENT_CONTAINER_UNKNOWN: 404,
  AGENT_OTHER_POD: 409,
  AGENT_CONTAINER_NOT_RUNNING: 409,
  AGENT_REQUEST_TOO_LARGE: 413,
};

/** Responds with a JSON document, or without a body if there is none. */
export function answerJson(stream: ServerHttp2Stream, status: number, value?: unknown): void {
  if (stream.destroyed || stream.headersSent) return;
  if (value === undefined) return stream.respond({ ":status": status }, { endStream: true });
  stream.respond({ ":status": status, "content-type": "application/json" });
  stream.end(JSON.stringify(value));
}

/** Responds with an error. Ends the stream if the response has already begun. */
export function answerError(stream: ServerHttp2Stream, error: unknown): void {
  if (stream.headersSent) return void stream.destroy();
  const code = AgentError.is(error) ? error.code : "AGENT_FAILED";
  const answer = { code, message: errorText(error), retryable: isRetryable(error) };
  answerJson(stream, statusByCode[code] ?? 500, answer);
  // Read and drop what the client still sends, so that it gets to read the response.
  stream.resume();
}

/** The error for a request that is not valid. */
export function invalidRequest(reason: string, cause?: unknown): AgentError {
  return new AgentError("AGENT_REQUEST_INVALID", `Cannot serve the request: ${reason}`, { cause });
}

/** Reads a JSON body of at most 8 MiB. @throws `AGENT_REQUEST_INVALID`, `AGENT_REQUEST_TOO_LARGE` */
export async function readJson(stream: ServerHttp2Stream): Promise<unknown> {
  const parts: Buffer[] = [];
  let size = 0;
  const body: AsyncIterable<Buffer> = stream.iterator({ destroyOnReturn: false });
  for await (const chunk of body) {
    size += chunk.length;
    if (size > maxBodyBytes) {
      throw new AgentError(
        "AGENT_REQUEST_TOO_LARGE",
        `Cannot serve the request: its body has more than ${maxBodyBytes} bytes`,
        { remedy: "Put less into ConfigMaps and Secrets of the pod" },
      );
    }
    parts.push(chunk);
  }
  try {
    return JSON.parse(Buffer.concat(parts).toString());
  } catch (error) {
    throw invalidRequest("its body is not JSON", error);
  }
}

/** Converts a decoder's error to `AGENT_REQUEST_INVALID`. */
export function decodeRequest<T>(decode: () => T): T {
  try {
    return decode();
  } catch (error) {
    if (DecodeError.is(error, "DECODE_FAILED")) throw invalidRequest(errorText(error), error);
    throw error;
  }
}
