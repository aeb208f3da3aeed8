import http, { type IncomingMessage } from "node:http";
import https from "node:https";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { getCACertificates } from "node:tls";
import { invalidImage } from "../errors.ts";

/** One request. */
export interface HttpRequest {
  readonly method: "GET" | "HEAD" | "POST" | "PUT";
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: AsyncIterable<Uint8Array> | Uint8Array;
  readonly signal?: AbortSignal;
}

/** `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`, in either case, as curl reads them. */
export type ProxyVariables = Readonly<Record<string, string | undefined>>;

/** A peer that is silent for so long is given up, milliseconds; connecting counts. */
const silenceMs = 30_000;

/** The head of an answer must be whole by then, milliseconds, however busily it trickles in. */
const headMs = 120_000;

/** Connections to a registry and those it sends us to, kept open for the time of one pull. */
export class HttpExchange implements AsyncDisposable {
  readonly #agents: { readonly plain: http.Agent; readonly tls: https.Agent };

  /**
   * @param ca certificate authorities in PEM that count besides the system's
   * @param proxy variables that name proxies
   */
  constructor(ca: string | undefined, proxy?: ProxyVariables) {
    const proxyEnv = proxy && { proxyEnv: { ...proxy } };
    const options = { keepAlive: true, timeout: silenceMs, ...proxyEnv };
    const trust = ca === undefined ? {} : { ca: [...getCACertificates("default"), ca] };
    this.#agents = {
      plain: new http.Agent(options),
      tls: new https.Agent({ ...options, ...trust }),
    };
  }

  /**
   * Sends a request and returns the head of the answer; its body must be read or destroyed.
   * @throws Node's network errors, and the signal's reason
   */
  async send(request: HttpRequest): Promise<IncomingMessage> {
    const { url, method, headers, body, signal } = request;
    signal?.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const isTls = url.protocol === "https:";
    const options = { method, headers, ...(signal && { signal }) };
    const sent = isTls
      ? https.request(url, { ...options, agent: this.#agents.tls })
      : http.request(url, { ...options, agent: this.#agents.plain });
    sent.on("response", resolve);
    if (body === undefined) {
      const late = (): void => void sent.destroy(new Error(`no answer within ${headMs / 1000} s`));
      const timer = setTimeout(late, headMs).unref();
      for (const event of ["response", "close"]) sent.once(event, () => clearTimeout(timer));
    }
    sent.on("error", (error) => reject(signal?.aborted ? abortReason(signal) : error));
    sent.on("timeout", () => sent.destroy(new Error(`no answer for ${silenceMs / 1000} s`)));
    if (body === undefined || body instanceof Uint8Array) sent.end(body);
    else pipeline(Readable.from(body, { objectMode: false }), sent).catch(reject);
    return await promise;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#agents.plain.destroy();
    this.#agents.tls.destroy();
  }
}

/** Reads a body of at most `maxBytes` bytes. @throws `IMAGE_INVALID` if it is longer */
export async function readBody(body: AsyncIterable<Uint8Array>, maxBytes: number): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > maxBytes) throw invalidImage(`an answer of its registry is over ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function abortReason(signal: AbortSignal): Error {
  return signal.reason instanceof Error ? signal.reason : new Error("Aborted");
}
