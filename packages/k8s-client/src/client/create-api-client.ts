import type { Readable } from "node:stream";
import { untilAborted, type Clock, type Logger } from "@kip/base";
import type {
  ApiClient,
  DeleteOptions,
  ObjectList,
  PatchOptions,
  PatchType,
  Query,
  RawRequestOptions,
  RawResponse,
  RequestOptions,
  StreamOptions,
} from "./api-client.ts";
import { K8sError } from "../errors.ts";
import type { KubeConfig } from "../kubeconfig/kubeconfig.ts";
import { requestPacer, RequestSlots } from "./request-slots.ts";
import { statusError, unavailable } from "./status-error.ts";
import { timeLimit } from "./time-limit.ts";
import { Transport, type Answer } from "./transport.ts";

/** Options of {@link createApiClient}. */
export interface ApiClientOptions {
  /** The User-Agent header, for example `kip/0.1.0`. The part before "/" is the field manager. */
  readonly userAgent: string;
  readonly logger: Logger;
  readonly clock: Clock;
  /** Most connections for requests. Watches and streams have their own. @default 16 */
  readonly maxConnections?: number;
  /**
   * Whether watches and streams share HTTP/2 connections, with as many on each as the server allows. This is for thousands of
   * watches: a connection costs some 90 KB. If the server does not support HTTP/2, each has a connection of its own. @default
   * false
   */
  readonly sharesStreams?: boolean;
  /** Most requests per second, not counting watches and streams. @default no limit, because the server has its own */
  readonly qps?: number;
}

const contentTypes: Readonly<Record<PatchType, string>> = {
  merge: "application/merge-patch+json",
  strategic: "application/strategic-merge-patch+json",
  json: "application/json-patch+json",
  // The media type says YAML. JSON is valid YAML.
  apply: "application/apply-patch+yaml",
};

const defaultTimeoutMs = 30_000;

/** How much of a failed request's body is read. A `Status` is far smaller. */
const maxFailureBytes = 1024 * 1024;

/**
 * A client over kept-alive HTTP/1.1 connections; see `sharesStreams` for HTTP/2.
 *
 * @example
 * ```ts
 * import { once } from "node:events";
 * import { createServer } from "node:http";
 * import type { AddressInfo } from "node:net";
 * import { silentLogger, systemClock } from "@kip/base";
 * import { createApiClient, ignoreNotFound, paths } from "@kip/k8s-client";
 *
 * // Instead of a cluster, which `loadKubeConfig()` would find: a server that has no objects.
 * const server = createServer((_request, response) => response.writeHead(404).end());
 * await once(server.listen(0, "127.0.0.1"), "listening");
 * const config = {
 *   server: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
 *   namespace: "default",
 *   source: "example",
 *   credentials: async () => ({ verifyServer: true, headers: {} }),
 * };
 * const userAgent = "example/1.0";
 * const client = createApiClient(config, { userAgent, logger: silentLogger, clock: systemClock });
 * const pod = await ignoreNotFound(client.get(paths.pods("default", "web")));
 * assert.equal(pod, undefined);
 * client.close();
 * server.close();
 * ```
 */
export function createApiClient(config: KubeConfig, options: ApiClientOptions): ApiClient {
  return new HttpApiClient(config, options);
}

/** A list of metadata without entries has `"items": null`. */
type WireList<T> = Omit<ObjectList<T>, "items"> & { readonly items: readonly T[] | null };

class HttpApiClient implements ApiClient {
  readonly server: string;
  readonly #config: KubeConfig;
  readonly #options: ApiClientOptions;
  readonly #transport: Transport;
  readonly #slots: RequestSlots;
  readonly #pace: (signal: AbortSignal) => Promise<void>;

  constructor(config: KubeConfig, options: ApiClientOptions) {
    this.server = config.server;
    this.#config = config;
    this.#options = options;
    const { maxConnections = 16, sharesStreams = false, clock } = options;
    const { server } = config;
    this.#transport = new Transport({ server, maxConnections, sharesStreams, clock });
    this.#slots = new RequestSlots(maxConnections, clock);
    this.#pace = requestPacer(options.clock, options.qps);
  }

  get longestWaitMs(): number {
    return this.#slots.longestWaitMs;
  }

  get<T>(path: string, options?: RequestOptions): Promise<T> {
    return this.#json("GET", path, options);
  }

  async list<T>(path: string, options?: RequestOptions): Promise<ObjectList<T>> {
    const answer = await this.#json<WireList<T>>("GET", path, options);
    return { ...answer, items: answer.items ?? [] };
  }

  create<T>(path: string, body: unknown, options?: RequestOptions): Promise<T> {
    return this.#json("POST", path, { ...options, body });
  }

  replace<T>(path: string, body: unknown, options?: RequestOptions): Promise<T> {
    return this.#json("PUT", path, { ...options, body });
  }

  patch<T>(path: string, body: unknown, type: PatchType, options?: PatchOptions): Promise<T> {
    const fieldManager = options?.fieldManager ?? this.#options.userAgent.split("/")[0];
    const query: Query = {
      ...options?.query,
      fieldManager,
      force: type === "apply" && options?.force === true ? true : undefined,
    };
    const headers = { "Content-Type": contentTypes[type] };
    return this.#json("PATCH", path, { ...options, query, headers, body });
  }

  delete<T>(path: string, options?: DeleteOptions): Promise<T> {
    const { uid, resourceVersion } = options ?? {};
    const isConditional = uid !== undefined || resourceVersion !== undefined;
    const body = {
      apiVersion: "v1",
      kind: "DeleteOptions",
      gracePeriodSeconds: options?.graceSeconds,
      propagationPolicy: options?.propagation,
      preconditions: isConditional ? { uid, resourceVersion } : undefined,
    };
    return this.#json("DELETE", path, { ...options, body });
  }

  async stream(path: string, options: StreamOptions = {}): Promise<Readable> {
    const limit = timeLimit(
      options.timeoutMs ?? defaultTimeoutMs,
      options.signal,
      this.#options.clock,
    );
    try {
      const answer = await this.#send("GET", path, { ...options, signal: limit.signal }, true);
      // The time limit also covers the body of a failure.
      destroyOnAbort(answer.body, answer.status === 200 ? options.signal : limit.signal);
      if (answer.status === 200) {
        limit.end();
        return answer.body;
      }
      const body = await readBody(answer);
      throw this.#failure({ method: "GET", path }, { ...answer, body });
    } catch (error) {
      limit.end();
      throw ownReason(error, options.signal, { method: "GET", path });
    }
  }

  request(method: string, path: string, options: RawRequestOptions = {}): Promise<RawResponse> {
    const { signal, unsentSignal } = options;
    const either = signal && unsentSignal ? AbortSignal.any([signal, unsentSignal]) : undefined;
    const wait = { ...options, signal: either ?? signal ?? unsentSignal };
    return this.#slots.run(() => this.#exchange(method, path, options), wait);
  }

  async #exchange(method: string, path: string, options: RawRequestOptions): Promise<RawResponse> {
    const limit = timeLimit(
      options.timeoutMs ?? defaultTimeoutMs,
      options.signal,
      this.#options.clock,
    );
    try {
      await this.#pace(limit.signal);
      const answer = await this.#send(method, path, { ...options, signal: limit.signal }, false);
      return { ...answer, body: await readBody(answer) };
    } catch (error) {
      throw ownReason(error, options.signal, { method, path });
    } finally {
      limit.end();
    }
  }

  close(): void {
    this.#transport.close();
  }

  async #json<T>(method: string, path: string, options?: RawRequestOptions): Promise<T> {
    const answer = await this.request(method, path, options);
    if (answer.status >= 300) throw this.#failure({ method, path }, answer);
    try {
      return JSON.parse(answer.body.toString("utf8")) as T; // the API server follows its schema
    } catch {
      // The body may be a proxy's page. The parser's message quotes the body, which may be a Secret.
      throw unavailable({ method, path }, new SyntaxError("the answer is not valid JSON"));
    }
  }

  async #send(
    method: string,
    path: string,
    options: SendOptions,
    streaming: boolean,
  ): Promise<Answer> {
    const credentials = await untilAborted(this.#config.credentials(), options.signal);
    const encoded = encodeBody(options.body);
    const sent = this.#transport.send({
      method,
      path: withQuery(path, options.query),
      headers: {
        Accept: options.accept ?? "application/json",
        "User-Agent": this.#options.userAgent,
        ...(encoded !== undefined && {
          "Content-Type": "application/json",
          "Content-Length": String(Buffer.byteLength(encoded)),
        }),
        ...options.headers,
      },
      body: encoded,
      credentials,
      signal: options.signal,
      streaming,
    });
    try {
      const answer = await sent;
      if (answer.status === 401) this.#config.forget?.(credentials);
      return answer;
    } catch (error) {
      if (isTlsFailure(error)) this.#config.forget?.(credentials);
      throw error;
    }
  }

  #failure(request: { readonly method: string; readonly path: string }, answer: RawResponse) {
    return statusError(request, {
      status: answer.status,
      retryAfter: answer.headers["retry-after"],
      body: answer.body.toString("utf8"),
    });
  }
}

interface SendOptions {
  readonly query?: Query | undefined;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly accept?: string | undefined;
  readonly signal: AbortSignal;
}

function encodeBody(body: unknown): string | Uint8Array | undefined {
  if (body === undefined || typeof body === "string" || body instanceof Uint8Array) return body;
  return JSON.stringify(body);
}

function withQuery(path: string, query: Query | undefined): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined) parameters.set(name, String(value));
  }
  return parameters.size === 0 ? path : `${path}?${parameters.toString()}`;
}

/**
 * Uses events, because a stream's iterator costs several times as much and this runs for each request. Of a failure's body, the
 * first part is enough.
 */
function readBody({ status, body }: Answer): Promise<Buffer> {
  const isFailure = status >= 300;
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    body.on("data", (chunk: Buffer) => {
      chunks.push(chunk);
      bytes += chunk.length;
      if (!isFailure || bytes < maxFailureBytes) return;
      resolve(Buffer.concat(chunks).subarray(0, maxFailureBytes));
      body.destroy();
    });
    body.on("end", () => resolve(Buffer.concat(chunks)));
    body.on("error", reject);
    // Has no effect after the body's end.
    body.on("close", () => reject(new Error("The connection was closed before the answer's end")));
  });
}

function destroyOnAbort(body: Readable, signal: AbortSignal | undefined): void {
  if (!signal) return;
  const abort = (): void => {
    body.destroy(signal.reason instanceof Error ? signal.reason : undefined);
  };
  if (signal.aborted) return abort();
  signal.addEventListener("abort", abort, { once: true });
  body.once("close", () => signal.removeEventListener("abort", abort));
}

/** Whether one side refused the other's certificate. Either certificate may have been renewed. */
function isTlsFailure(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : undefined;
  const code = cause instanceof Error && "code" in cause ? String(cause.code) : "";
  return /^(ERR_TLS|ERR_SSL|ERR_OSSL|CERT_|SELF_SIGNED|DEPTH_ZERO|UNABLE_TO|EPROTO)/.test(code);
}

/**
 * The error to throw for an aborted request. If the caller aborted it: the caller's reason. If the time limit did: a failure of
 * the server.
 */
function ownReason(
  error: unknown,
  signal: AbortSignal | undefined,
  request: { readonly method: string; readonly path: string },
): unknown {
  if (signal?.aborted === true) return signal.reason;
  if (K8sError.is(error)) return error;
  return unavailable(request, error);
}
