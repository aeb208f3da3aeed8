import type http from "node:http";
import type { IncomingMessage } from "node:http";
import type https from "node:https";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { httpModule } from "@kip/base";
import { ByteCollector } from "../byte-collector.ts";
import { invalidImage } from "../errors.ts";

/** An HTTP request. */
export interface HttpRequest {
  readonly method: "GET" | "HEAD" | "POST" | "PUT";
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: AsyncIterable<Uint8Array> | Uint8Array | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`, in upper or lower case, with the same meaning as for curl. */
export type ProxyVariables = Readonly<Record<string, string | undefined>>;

/** Longest silence of a peer, including while connecting, milliseconds. */
const silenceMs = 30_000;

/** Limit for the body of a refusal, bytes. */
export const maxRefusalBytes = 64 * 1024;

/** Time limit for the complete head of a response, milliseconds, even if data keep trickling in. */
const headMs = 120_000;

/**
 * Node's modules, loaded on demand. An import statement would take 15 ms longer, because it also loads their lazy parts
 * (undici, the certificates). TLS takes 10 ms, which plain HTTP does not need.
 */
const modules = {
  http: httpModule,
  https: () => process.getBuiltinModule("node:https"),
  tls: () => process.getBuiltinModule("node:tls"),
};

/** Connections to a registry and to servers that it redirects to. They stay open for one pull. */
export class HttpExchange implements AsyncDisposable {
  readonly #options: http.AgentOptions;
  readonly #ca: string | undefined;
  #plain: http.Agent | undefined;
  #tls: https.Agent | undefined;

  /**
   * @param ca additional certificate authorities, PEM
   * @param proxy environment variables for proxies
   */
  constructor(ca: string | undefined, proxy?: ProxyVariables) {
    const proxyEnv = proxy && { proxyEnv: withRanges(proxy) };
    this.#options = { keepAlive: true, timeout: silenceMs, ...proxyEnv };
    this.#ca = ca;
  }

  /**
   * Sends a request and returns the head of the response. The caller must read or destroy the body.
   *
   * @throws Node's network errors, and the signal's reason
   */
  async send(request: HttpRequest): Promise<IncomingMessage> {
    const { url, method, headers, body, signal } = request;
    signal?.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const sent = this.#request(url, { method, headers, signal });
    sent.on("response", resolve);
    const isSmall = body === undefined || body instanceof Uint8Array;
    if (isSmall) {
      const late = (): void => void sent.destroy(new Error(`no answer within ${headMs / 1000} s`));
      const timer = setTimeout(late, headMs).unref();
      for (const event of ["response", "close"]) sent.once(event, () => clearTimeout(timer));
    }
    sent.on("error", (error) => reject(signal?.aborted ? abortReason(signal) : error));
    // For an upgrade to another protocol, Node reports neither a response nor an error.
    sent.on("close", () => reject(new Error("the connection ended without an answer")));
    sent.on("timeout", () => sent.destroy(new Error(`no answer for ${silenceMs / 1000} s`)));
    if (isSmall) sent.end(body);
    else pipeline(Readable.from(body, { objectMode: false }), sent).catch(reject);
    return await promise;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#plain?.destroy();
    this.#tls?.destroy();
  }

  #request(url: URL, options: http.RequestOptions): http.ClientRequest {
    if (url.protocol !== "https:") {
      const plain = modules.http();
      this.#plain ??= new plain.Agent(this.#options);
      return plain.request(url, { ...options, agent: this.#plain });
    }
    const secure = modules.https();
    this.#tls ??= new secure.Agent({ ...this.#options, ...this.#trust() });
    return secure.request(url, { ...options, agent: this.#tls });
  }

  #trust(): { readonly ca?: string[] } {
    if (this.#ca === undefined) return {};
    const { getCACertificates } = modules.tls();
    const known = getCACertificates("default");
    // On cells the default list is empty, because OpenSSL then looks up each authority on demand. It does not do so once a list
    // is set, so use Node's own list.
    return { ca: [...(known.length > 0 ? known : getCACertificates("bundled")), this.#ca] };
  }
}

/** Reads a body of at most `maxBytes` bytes. @throws `IMAGE_INVALID` if it is longer */
export async function readBody(body: AsyncIterable<Uint8Array>, maxBytes: number): Promise<Buffer> {
  const read = new ByteCollector();
  for await (const chunk of body) {
    if (read.length + chunk.length > maxBytes) {
      throw invalidImage(`an answer of its registry is over ${maxBytes} bytes`);
    }
    read.add(chunk);
  }
  return read.bytes();
}

/** Reads the first bytes of a body, without waiting for the rest. */
export async function readBeginning(
  body: AsyncIterable<Uint8Array>,
  maxBytes: number,
): Promise<Buffer> {
  const read = new ByteCollector();
  for await (const chunk of body) {
    read.add(chunk.subarray(0, maxBytes - read.length));
    if (read.length >= maxBytes) break;
  }
  return read.bytes();
}

/** Node's NO_PROXY supports address ranges, but not the CIDRs that Go and curl also support. */
function withRanges(variables: ProxyVariables): Record<string, string | undefined> {
  const known = { ...variables };
  for (const name of ["NO_PROXY", "no_proxy"]) {
    const entries = known[name]?.split(",").map((entry) => entry.trim());
    if (entries) known[name] = entries.map((entry) => rangeOf(entry) ?? entry).join(",");
  }
  return known;
}

/** Converts `10.0.0.0/8` to `10.0.0.0-10.255.255.255`. */
function rangeOf(entry: string): string | undefined {
  const [, address, bits = ""] = /^(\d{1,3}(?:\.\d{1,3}){3})\/(\d{1,2})$/.exec(entry) ?? [];
  if (address === undefined || Number(bits) > 32) return undefined;
  const size = 2 ** (32 - Number(bits));
  const number = address.split(".").reduce((sum, part) => sum * 256 + Number(part), 0);
  const first = number - (number % size);
  return [first, first + size - 1].map(formatAddress).join("-");
}

function formatAddress(number: number): string {
  return [24, 16, 8, 0].map((shift) => (number >>> shift) & 0xff).join(".");
}

function abortReason(signal: AbortSignal): Error {
  return signal.reason instanceof Error ? signal.reason : new Error("Aborted");
}
