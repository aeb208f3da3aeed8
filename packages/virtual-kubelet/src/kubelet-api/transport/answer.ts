import type { ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { setImmediate as nextTurn } from "node:timers/promises";
import { errorText, DecodeError } from "@kip/base";
import { findError } from "../../errors.ts";

/** A refusal with a kubelet's message. Sent as a plain-text response. */
export class HttpRefusal extends Error {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, text: string, headers: Readonly<Record<string, string>> = {}) {
    super(text);
    this.status = status;
    this.headers = headers;
  }
}

/** Converts an error to a refusal for the client: not found 404, invalid 400, others 500. */
export function refusalOf(error: unknown): HttpRefusal {
  if (error instanceof HttpRefusal) return error;
  if (findError(error, "VK_NOT_FOUND")) return new HttpRefusal(404, errorText(error));
  if (findError(error, "VK_INVALID_POD") || DecodeError.is(error, "DECODE_FAILED"))
    return new HttpRefusal(400, errorText(error));
  return new HttpRefusal(500, errorText(error));
}

/** Sends a refusal and closes the connection, because the request body has not been read. */
export function refuse(response: ServerResponse, refusal: HttpRefusal): void {
  response.writeHead(refusal.status, {
    "Content-Type": "text/plain; charset=utf-8",
    "X-Content-Type-Options": "nosniff",
    ...(refusal.status !== 404 && { Connection: "close" }),
    ...refusal.headers,
  });
  response.end(refusal.message);
}

/** Sends a whole document. */
export function answer(response: ServerResponse, contentType: string, text: string): void {
  response.writeHead(200, {
    "Content-Type": contentType,
    "Content-Length": Buffer.byteLength(text),
    "X-Content-Type-Options": "nosniff",
  });
  response.end(text);
}

/**
 * Sends a document in parts that are generated one after the other, as fast as the client reads. The server handles other
 * requests between them. Resolves when the document is sent or the client has disconnected.
 */
export async function answerInParts(
  response: ServerResponse,
  contentType: string,
  parts: Iterable<string>,
): Promise<void> {
  response.writeHead(200, { "Content-Type": contentType, "X-Content-Type-Options": "nosniff" });
  await pipeline(Readable.from(oneATurn(parts), { highWaterMark: 1 }), response).catch(
    (error: unknown) => {
      if (!response.destroyed) throw error;
    },
  );
}

async function* oneATurn(parts: Iterable<string>): AsyncGenerator<string> {
  for (const part of parts) {
    if (part !== "") yield part;
    await nextTurn();
  }
}
