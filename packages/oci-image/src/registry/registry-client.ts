import type { IncomingMessage } from "node:http";
import { backoffDelay, bytesOf, defined, isRetryable, systemClock, type Clock } from "@kip/base";
import { ImageError } from "../errors.ts";
import type { Reference } from "../reference.ts";
import { answerChallenge } from "./authentication.ts";
import {
  HttpExchange,
  maxRefusalBytes,
  readBeginning,
  type HttpRequest,
  type ProxyVariables,
} from "./http-exchange.ts";
import { withLeastThroughput } from "./least-throughput.ts";
import type { RegistryConfig } from "./registry-config.ts";
import { networkError, refusalError } from "./registry-errors.ts";
import { withRetries, type RetryOptions } from "./retry.ts";

/** A request to a repository. */
export interface RepositoryRequest {
  readonly method: HttpRequest["method"];
  /** Relative to `/v2/<repository>/`, or an absolute URL from the registry. */
  readonly path: string | URL;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: HttpRequest["body"] | undefined;
  readonly signal?: AbortSignal | undefined;
  /** What the request is for, used in error messages. */
  readonly what: string;
  /** Status codes of success. Any other code is a failure. */
  readonly accept: readonly number[];
}

/** Options of {@link RegistryClient}. */
export interface ClientOptions {
  readonly actions: "pull" | "pull,push";
  /** @default each request is made once */
  readonly retry?: RetryOptions | undefined;
  readonly proxy?: ProxyVariables | undefined;
  /** Clock for measuring the registry's speed. @default that of `retry` */
  readonly clock?: Clock | undefined;
  /** Minimum rate over a minute, below which the registry is given up. @default 1024 */
  readonly leastBytesPerSecond?: number | undefined;
}

/** Docker Hub's registry has another host name than its images. */
const dockerHub = "https://registry-1.docker.io";
const redirects: readonly number[] = [301, 302, 303, 307, 308];
const maxRedirects = 5;
/** Most discarded bodies that may still be arriving. Each holds a connection. */
const maxUnread = 8;
/** Fewer bytes before a broken connection do not count as progress. This is one minute at the lowest allowed rate. */
const progressBytes = 60 * 1024;
const resumeBackoff = { initialMs: 100, maxMs: 5000 };

/** A repository in a registry: URLs, log-in, redirects and failures (distribution-spec v1.1). */
export class RegistryClient implements AsyncDisposable {
  readonly #config: RegistryConfig;
  readonly #exchange: HttpExchange;
  readonly #baseUrl: URL;
  readonly #repository: string;
  readonly #scope: string;
  readonly #retry: RetryOptions | undefined;
  readonly #clock: Clock;
  readonly #leastBytesPerSecond: number | undefined;
  #authorization: string | undefined;
  readonly #unread = new Set<IncomingMessage>();

  constructor(
    reference: Reference,
    registries: readonly RegistryConfig[],
    { actions, retry, proxy, clock, leastBytesPerSecond }: ClientOptions,
  ) {
    this.#retry = retry;
    this.#clock = clock ?? retry?.clock ?? systemClock;
    this.#leastBytesPerSecond = leastBytesPerSecond;
    this.#config = registries.find(({ host }) => host === reference.registry) ?? {
      host: reference.registry,
    };
    this.#exchange = new HttpExchange(this.#config.ca, proxy);
    this.#baseUrl = baseUrlOf(this.#config);
    this.#repository = reference.repository;
    this.#scope = `repository:${reference.repository}:${actions}`;
  }

  /**
   * Sends a request. Repeats it if it fails and may be repeated. If the registry requires it, logs in once per attempt. The
   * caller must read or destroy the response's body.
   *
   * @throws {ImageError} codes `IMAGE_NOT_FOUND`, `REGISTRY_*`
   */
  async request(request: RepositoryRequest): Promise<IncomingMessage> {
    const { method, signal } = request;
    const mayRepeat = method === "GET" || method === "HEAD";
    if (!mayRepeat || !this.#retry) return await this.#attempt(request);
    return await withRetries(() => this.#attempt(request), { ...this.#retry, signal });
  }

  /**
   * The bytes of the response to a GET. If the connection breaks, requests the rest (`Range`). If the registry then sends
   * everything again, skips the known bytes.
   *
   * @param from number of bytes that are already known
   */
  async *stream(request: RepositoryRequest, from = 0): AsyncGenerator<Uint8Array> {
    const { signal } = request;
    let received = from;
    const retry = this.#retry;
    let attempt = 0;
    for (;;) {
      const before = received;
      try {
        const response = await this.request(
          received === 0 ? request : { ...request, ...restOf(request, received) },
        );
        let known = response.statusCode === 206 ? 0 : received;
        if (response.statusCode === 206) checkRange(response, received);
        for await (const chunk of this.body(response, signal)) {
          const fresh = chunk.subarray(Math.min(known, chunk.length));
          known -= chunk.length - fresh.length;
          received += fresh.length;
          if (fresh.length > 0) yield fresh;
        }
        return;
      } catch (error) {
        signal?.throwIfAborted();
        attempt = received - before >= progressBytes ? 0 : attempt + 1;
        const isFinal = received === from || attempt >= (retry?.attempts ?? 4);
        if (!retry || isFinal || !isRetryable(error)) throw error;
        await retry.clock.sleep(backoffDelay(attempt, resumeBackoff), signal);
      }
    }
  }

  async #attempt(request: RepositoryRequest): Promise<IncomingMessage> {
    const { signal } = request;
    try {
      let { response, isOwn } = await this.#follow(request);
      const challenge = response.headers["www-authenticate"];
      // A server that the registry redirects to must not be able to request the registry's credentials (CVE-2020-15157).
      const isAsked = response.statusCode === 401 && isOwn;
      if (isAsked && challenge !== undefined && !isStream(request)) {
        this.#discardBody(response);
        this.#authorization = await answerChallenge(challenge, this.#exchange, {
          config: this.#config,
          baseUrl: this.#baseUrl,
          scope: this.#scope,
          clock: this.#clock,
          signal,
        });
        ({ response } = await this.#follow(request));
      }
      const status = response.statusCode ?? 0;
      if (request.accept.includes(status)) return response;
      const body = await readBeginning(this.#paced(response), maxRefusalBytes);
      throw refusalError(
        { status, headers: response.headers, body },
        this.#config.host,
        request.what,
      );
    } catch (error) {
      signal?.throwIfAborted();
      throw networkError(error, this.#config.host);
    }
  }

  /** The body of a response. Converts network failures to this package's errors. */
  async *body(response: IncomingMessage, signal?: AbortSignal): AsyncGenerator<Uint8Array> {
    try {
      yield* this.#paced(response);
    } catch (error) {
      signal?.throwIfAborted();
      throw networkError(error, this.#config.host);
    }
  }

  /** The body, with the time limits for waiting. */
  #paced(response: IncomingMessage): AsyncIterable<Uint8Array> {
    const body = bytesOf(response);
    return withLeastThroughput(body, {
      clock: this.#clock,
      registry: this.#config.host,
      leastBytesPerSecond: this.#leastBytesPerSecond,
    });
  }

  /**
   * Discards a body. Reuses its connection if the body is short, and otherwise closes it. If too many bodies do not end, closes
   * the oldest ones.
   */
  #discardBody(response: IncomingMessage): void {
    const body = bytesOf(response);
    this.#unread.add(response);
    response.once("close", () => this.#unread.delete(response));
    readBeginning(body, maxRefusalBytes).catch(() => {});
    const [oldest] = this.#unread;
    if (this.#unread.size > maxUnread) oldest?.destroy();
  }

  /** Resolves a `Location` header of the registry. */
  resolve(location: string | undefined): URL {
    const url = URL.parse(location ?? "", this.#baseUrl.href);
    if (location !== undefined && url) return url;
    throw this.#badRedirect("nowhere");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#exchange[Symbol.asyncDispose]();
  }

  /** @returns `isOwn`: whether the registry itself answered, not a server that it redirects to */
  async #follow(
    request: RepositoryRequest,
  ): Promise<{ readonly response: IncomingMessage; readonly isOwn: boolean }> {
    const { method, path, body, signal } = request;
    let url = path instanceof URL ? path : new URL(`v2/${this.#repository}/${path}`, this.#baseUrl);
    for (let hop = 0; hop <= maxRedirects; hop++) {
      // Credentials are only sent to the registry, not to servers that it redirects to.
      const isOwn = url.origin === this.#baseUrl.origin;
      const authorization = isOwn ? this.#authorization : undefined;
      const headers = defined({
        // The digest is that of the unencoded bytes.
        "accept-encoding": "identity",
        ...request.headers,
        authorization,
      });
      const response = await this.#exchange.send({
        method,
        url,
        headers,
        body,
        signal,
      });
      const isRedirect = redirects.includes(response.statusCode ?? 0);
      if (!isRedirect || (method !== "GET" && method !== "HEAD")) return { response, isOwn };
      this.#discardBody(response);
      url = this.#redirectTarget(response.headers.location, url);
    }
    throw this.#badRedirect("in a circle");
  }

  #redirectTarget(location: string | undefined, from: URL): URL {
    const url = URL.parse(location ?? "", from.href);
    if (!url || !/^https?:$/.test(url.protocol)) throw this.#badRedirect("nowhere");
    if (from.protocol === "https:" && url.protocol !== "https:") {
      throw this.#badRedirect(`from HTTPS to plain HTTP at ${url.host}`);
    }
    return url;
  }

  #badRedirect(where: string): Error {
    const reason = `registry ${this.#config.host} sends us ${where}`;
    return new ImageError("REGISTRY_UNREACHABLE", reason, {
      facts: { registry: this.#config.host },
    });
  }
}

/** The request for the missing part. A registry without support for ranges answers 200. */
function restOf(
  request: RepositoryRequest,
  received: number,
): Pick<RepositoryRequest, "headers" | "accept"> {
  return {
    headers: { ...request.headers, range: `bytes=${received}-` },
    accept: [...request.accept, 206],
  };
}

function checkRange(response: IncomingMessage, received: number): void {
  const start = /^bytes (\d+)-/.exec(response.headers["content-range"] ?? "")?.[1];
  if (Number(start) === received) return;
  response.destroy();
  throw new ImageError("REGISTRY_UNREACHABLE", "a registry sends another range than was asked for");
}

/** A streamed body cannot be sent twice. */
function isStream({ body }: RepositoryRequest): boolean {
  return body !== undefined && !(body instanceof Uint8Array);
}

function baseUrlOf({ host, endpoint }: RegistryConfig): URL {
  const text = endpoint ?? (host === "docker.io" ? dockerHub : `https://${host}`);
  const url = URL.parse(text.endsWith("/") ? text : `${text}/`);
  const hasCredentials = url !== null && (url.username !== "" || url.password !== "");
  if (url && /^https?:$/.test(url.protocol) && !hasCredentials) return url;
  // Without the URL itself, because tenants read this and it may contain a password.
  const reason = hasCredentials ? "holds credentials" : "is not an http or https URL";
  throw new ImageError(
    "REGISTRY_UNREACHABLE",
    `the endpoint of registry ${hostOnly(host)} ${reason}`,
    {
      remedy: "Write for example http://127.0.0.1:5000, and credentials in their own fields",
    },
  );
}

/** An invalid mirror URL is shown as it is. */
function hostOnly(host: string): string {
  return host.slice(host.lastIndexOf("@") + 1);
}
