import type http from "node:http";
import https from "node:https";
import type { Readable } from "node:stream";
import tls from "node:tls";
import { httpModule, type Clock } from "@kip/base";
import type { Credentials } from "../kubeconfig/kubeconfig.ts";
import { SharedConnections } from "./shared-connections.ts";
import { unavailable } from "./status-error.ts";

/** A request for {@link Transport.send}. */
export interface TransportRequest {
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array | undefined;
  readonly credentials: Credentials;
  readonly signal: AbortSignal | undefined;
  /** Whether it is a watch or stream, which does not use the connections of requests. */
  readonly streaming: boolean;
}

/** Head and body of a response. */
export interface Answer {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: Readable;
}

/** Options of {@link Transport}. */
export interface TransportOptions {
  readonly server: string;
  /** Limit for requests. Streams have their own connections. */
  readonly maxConnections: number;
  /** Whether streams share HTTP/2 connections if the server supports it. Otherwise each has a connection of its own. */
  readonly sharesStreams: boolean;
  readonly clock: Clock;
}

/** Sends requests over kept-alive connections. New credentials lead to new connections. */
export class Transport {
  readonly #options: TransportOptions;
  readonly #server: URL;
  #agents: Agents | undefined;
  /** Connections with earlier credentials that still have requests under way. */
  #retired: readonly Retired[] = [];

  constructor(options: TransportOptions) {
    this.#options = options;
    this.#server = new URL(options.server);
  }

  /**
   * Resolves with the head of the response. The caller reads the body from it.
   *
   * @throws {K8sError} code `K8S_UNAVAILABLE`, or the signal's reason
   */
  async send(request: TransportRequest): Promise<Answer> {
    try {
      return await this.#once(request);
    } catch (error) {
      if (request.signal?.aborted === true) throw error;
      // The server may close an idle connection just as a request uses it. The server has then not seen the request. Repeat it
      // only for a GET, which is harmless if this assumption is wrong.
      if (request.method === "GET" && isStaleConnection(error)) return this.#once(request);
      throw error;
    }
  }

  /** Closes all connections. */
  close(): void {
    this.#retire();
    for (const each of this.#retired) each.destroy();
  }

  /** Lets requests under way finish. Their connections then close. */
  #retire(): void {
    const { requests, streams, shared } = this.#agents ?? {};
    this.#agents = undefined;
    if (shared) this.#retired = [...this.#retired, shared];
    for (const agent of [requests, streams]) {
      if (!agent) continue;
      Object.assign(agent, { keepAlive: false });
      for (const socket of Object.values(agent.freeSockets).flat()) socket?.destroy();
      this.#retired = [...this.#retired, agent];
    }
    this.#retired = this.#retired.filter((each) =>
      each instanceof SharedConnections ? each.isUsed : Object.keys(each.sockets).length > 0,
    );
  }

  async #once(request: TransportRequest): Promise<Answer> {
    const agents = this.#agentsFor(request.credentials);
    return (
      (request.streaming && (await shareConnection(agents, request))) ||
      (await this.#onOwnConnection(agents, request))
    );
  }

  #onOwnConnection(agents: Agents, request: TransportRequest): Promise<Answer> {
    const options: https.RequestOptions = {
      hostname: this.#server.hostname.replace(/^\[|\]$/g, ""),
      port: this.#server.port,
      method: request.method,
      path: `${this.#server.pathname.replace(/\/$/, "")}${request.path}`,
      // Node does not change these lists.
      headers: {
        ...(request.credentials.headers as http.OutgoingHttpHeaders),
        ...request.headers,
      },
      agent: request.streaming ? agents.streams : agents.requests,
    };
    const { signal } = request;
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      let isSettled = false;
      const onAnswer = (body: http.IncomingMessage): void => {
        isSettled = true;
        resolve({ status: body.statusCode ?? 0, headers: body.headers, body });
      };
      const outgoing = this.#isPlain
        ? httpModule().request(options, onAnswer)
        : https.request(options, onAnswer);
      // Node's own `signal` option would watch the whole stream for each request, which is expensive.
      const abort = (): void => void outgoing.destroy(reasonOf(signal));
      signal?.addEventListener("abort", abort, { once: true });
      outgoing.on("close", () => {
        signal?.removeEventListener("abort", abort);
        // A protocol upgrade produces neither a response nor an error. Creating an error for each request would cost more than
        // this.
        if (!isSettled)
          reject(unavailable(request, new Error("The connection was closed before the answer")));
      });
      outgoing.on("error", (error: NodeJS.ErrnoException) => {
        isSettled = true;
        if (signal?.aborted === true) return reject(reasonOf(signal) ?? error);
        const failed = unavailable(request, error);
        if (outgoing.reusedSocket && error.code === "ECONNRESET") staleConnections.add(failed);
        reject(failed);
      });
      outgoing.end(request.body);
    });
  }

  get #isPlain(): boolean {
    return this.#server.protocol === "http:";
  }

  #agentsFor(credentials: Credentials): Agents {
    if (this.#agents?.credentials === credentials) return this.#agents;
    let next: Agents;
    try {
      next = this.#makeAgents(credentials);
    } catch (error) {
      // The certificate is new but the key is still the old one. The previous credentials stay in use until the server refuses
      // them.
      if (this.#agents) return this.#agents;
      throw error;
    }
    this.#retire();
    this.#agents = next;
    return next;
  }

  #makeAgents(credentials: Credentials): Agents {
    // Shorter than the idle limits of load balancers, so that a dead peer is noticed.
    const alive = { keepAlive: true, keepAliveMsecs: 30_000 };
    const requests = {
      ...alive,
      maxSockets: this.#options.maxConnections,
      scheduling: "lifo",
      // More idle connections only cost memory on both sides.
      maxFreeSockets: 8,
    } as const;
    if (this.#isPlain) {
      const { Agent } = httpModule();
      return { credentials, requests: new Agent(requests), streams: new Agent(alive) };
    }
    const secure = secureOptions(credentials);
    const { sharesStreams, clock } = this.#options;
    return {
      credentials,
      requests: new OneServerAgent({ ...secure, ...requests }),
      streams: new OneServerAgent({ ...secure, ...alive }),
      ...(sharesStreams && {
        shared: new SharedConnections({ server: this.#server, secure, clock }),
      }),
    };
  }
}

/**
 * Sends a request on a shared connection. Undefined if there is none.
 *
 * @throws {K8sError} code `K8S_UNAVAILABLE`, or the signal's reason
 */
async function shareConnection(
  { shared }: Agents,
  request: TransportRequest,
): Promise<Answer | undefined> {
  try {
    return await shared?.send(request);
  } catch (error) {
    if (request.signal?.aborted === true) throw reasonOf(request.signal) ?? error;
    throw unavailable(request, error);
  }
}

/** One TLS context for all connections, because each new one would parse the certificates again. */
function secureOptions({ ca, cert, key, serverName, verifyServer }: Credentials) {
  return {
    secureContext: tls.createSecureContext({ ca, cert, key }),
    ...(serverName !== undefined && { servername: serverName }),
    rejectUnauthorized: verifyServer,
  };
}

/** An agent that connects to one server with one set of credentials. */
class OneServerAgent extends https.Agent {
  /** The key of the connection pool. Node would join all connection options for each request. */
  override getName(): string {
    return "server";
  }
}

function reasonOf(signal: AbortSignal | undefined): Error | undefined {
  return signal?.reason instanceof Error ? signal.reason : undefined;
}

interface Agents {
  readonly credentials: Credentials;
  readonly requests: http.Agent;
  readonly streams: http.Agent;
  readonly shared?: SharedConnections;
}

type Retired = http.Agent | SharedConnections;

const staleConnections = new WeakSet<Error>();

function isStaleConnection(error: unknown): boolean {
  return error instanceof Error && staleConnections.has(error);
}
