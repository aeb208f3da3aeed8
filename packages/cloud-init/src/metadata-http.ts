import type { IncomingMessage } from "node:http";
import {
  backoffDelay,
  httpModule,
  isRetryable,
  systemClock,
  withTimeout,
  type Clock,
} from "@kip/base";
import { CloudInitError } from "./errors.ts";

/** Address of a metadata service, and the client's limits. */
export interface MetadataHttpOptions {
  /** `http:` or `https:` URL of the service. */
  readonly baseUrl: string;
  /** Time limit of one request with its response, milliseconds. @default 10,000 */
  readonly timeoutMs?: number | undefined;
  /** Maximum number of requests for one response, 1 or more. @default 15 */
  readonly attempts?: number | undefined;
  /** @default systemClock */
  readonly clock?: Clock | undefined;
}

/** One request to a metadata service. */
export interface MetadataRequest {
  /** Begins with a slash, and may have a query. */
  readonly path: string;
  /** @default "GET" */
  readonly method?: "GET" | "PUT" | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Maximum size of the response, bytes. @default 64 KiB */
  readonly maxBytes?: number | undefined;
  /** Maximum number of requests for this response. @default the client's */
  readonly attempts?: number | undefined;
  readonly signal: AbortSignal;
}

/** A response with a status below 500, except 429. Requests with other statuses are retried. */
export interface MetadataAnswer {
  readonly status: number;
  readonly body: Uint8Array;
  /** Value of a header. The name is in lower case. */
  header(name: string): string | undefined;
}

const defaultMaxBytes = 64 << 10;

/**
 * An HTTP client for metadata services: limited responses, no redirects, no proxy. It retries after failures that may be
 * temporary (no connection, no response in time, 429, 5xx) after 50 ms, doubling up to 5 s, like the original's client.
 */
export class MetadataHttp {
  readonly #base: URL;
  readonly #timeoutMs: number;
  readonly #attempts: number;
  readonly #clock: Clock;

  /** @throws {TypeError} for an invalid URL, or one that is neither `http:` nor `https:` */
  constructor(options: MetadataHttpOptions) {
    this.#base = new URL(options.baseUrl);
    if (!["http:", "https:"].includes(this.#base.protocol))
      throw new TypeError(`"${options.baseUrl}" is not an http or https address`);
    this.#timeoutMs = options.timeoutMs ?? 10_000;
    this.#attempts = options.attempts ?? 15;
    this.#clock = options.clock ?? systemClock;
  }

  /**
   * @throws {CloudInitError} `METADATA_UNAVAILABLE` after the last attempt; `METADATA_INVALID` if the response is too large
   * @throws the signal's reason
   */
  async send(request: MetadataRequest): Promise<MetadataAnswer> {
    const attempts = request.attempts ?? this.#attempts;
    for (let attempt = 0; ; attempt++) {
      try {
        return await this.#sendOnce(request);
      } catch (error) {
        request.signal.throwIfAborted();
        if (!isRetryable(error) || attempt + 1 >= attempts) throw error;
        const delayMs = backoffDelay(attempt, { initialMs: 50, maxMs: 5000 });
        await this.#clock.sleep(delayMs, request.signal);
      }
    }
  }

  async #sendOnce(request: MetadataRequest): Promise<MetadataAnswer> {
    const url = this.#urlOf(request.path);
    const what = `${request.method ?? "GET"} ${url.href}`;
    try {
      const answer = await withTimeout(async (signal) => await exchange(url, request, signal), {
        limitMs: this.#timeoutMs,
        clock: this.#clock,
        signal: request.signal,
      });
      if (answer.status === 429 || answer.status >= 500)
        throw unavailable(what, new Error(`its status is ${answer.status}`));
      return answer;
    } catch (error) {
      if (request.signal.aborted || CloudInitError.is(error)) throw error;
      throw unavailable(what, error);
    }
  }

  #urlOf(path: string): URL {
    const prefix = this.#base.pathname.replace(/\/$/, "");
    return new URL(prefix + path, this.#base);
  }
}

/** Runs work with several requests. If it fails, pending requests are cancelled. */
export async function endingTogether<T>(
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const end = new AbortController();
  try {
    return await work(AbortSignal.any([signal, end.signal]));
  } finally {
    end.abort();
  }
}

/** Whether a source returns its first response. Requests it once. @throws the signal's reason */
export async function hasAnswer(
  signal: AbortSignal,
  read: () => Promise<string | undefined>,
): Promise<boolean> {
  try {
    return (await read()) !== undefined;
  } catch {
    signal.throwIfAborted();
    return false;
  }
}

async function exchange(
  url: URL,
  request: MetadataRequest,
  signal: AbortSignal,
): Promise<MetadataAnswer> {
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    const client =
      url.protocol === "https:" ? process.getBuiltinModule("node:https") : httpModule();
    client
      .request(url, {
        method: request.method ?? "GET",
        headers: { ...request.headers },
        // Close each connection after its response. A machine's start makes few requests, and no connection should stay open.
        agent: false,
        signal,
      })
      .on("response", resolve)
      .on("error", reject)
      .end();
  });
  const body = await readBounded(response, request.maxBytes ?? defaultMaxBytes, url);
  return {
    status: response.statusCode ?? 0,
    body,
    header: (name) => {
      const value = response.headers[name];
      return Array.isArray(value) ? value[0] : value;
    },
  };
}

async function readBounded(
  response: IncomingMessage,
  maxBytes: number,
  url: URL,
): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  let length = 0;
  for await (const piece of response as AsyncIterable<Buffer>) {
    length += piece.length;
    if (length > maxBytes) {
      const message = `Cannot read ${url.href}: the answer has more than ${maxBytes} bytes`;
      throw new CloudInitError("METADATA_INVALID", message);
    }
    pieces.push(piece);
  }
  return Buffer.concat(pieces, length);
}

function unavailable(what: string, cause: unknown): CloudInitError {
  return new CloudInitError("METADATA_UNAVAILABLE", `Cannot ask the metadata service: ${what}`, {
    cause,
    retryable: true,
    remedy: "Check that the machine may reach its cloud's metadata service",
  });
}
