import type http from "node:http";
import https from "node:https";
import tls from "node:tls";
import { httpModule } from "@kip/base";
import type { Credentials } from "../kubeconfig/kubeconfig.ts";
import { unavailable } from "./status-error.ts";

/** One request of {@link Transport.send}. */
export interface TransportRequest {
  readonly method: string;
  /** Path with query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array | undefined;
  readonly credentials: Credentials;
  readonly signal: AbortSignal | undefined;
  /** Streams do not take the connections of requests. */
  readonly streaming: boolean;
}

/** Sends requests over kept-alive connections; new credentials mean new connections. */
export class Transport {
  readonly #server: URL;
  readonly #maxConnections: number;
  #agents: Agents | undefined;
  /** Agents of earlier credentials with requests under way. */
  #retired: readonly http.Agent[] = [];

  constructor(server: string, maxConnections: number) {
    this.#server = new URL(server);
    this.#maxConnections = maxConnections;
  }

  /**
   * Resolves with the head of the answer; the body is read from it.
   *
   * @throws {K8sError} code `K8S_UNAVAILABLE`, or the signal's reason
   */
  async send(request: TransportRequest): Promise<http.IncomingMessage> {
    try {
      return await this.#once(request);
    } catch (error) {
      if (request.signal?.aborted === true) throw error;
      // The server may close an idle connection just when we use it. It has then not seen the
      // request, but only for a GET is it harmless to be wrong about that.
      if (request.method === "GET" && isStaleConnection(error)) return this.#once(request);
      throw error;
    }
  }

  /** Closes all connections. */
  close(): void {
    this.#retire();
    for (const agent of this.#retired) agent.destroy();
  }

  /** Requests under way go on, and their connections close at their end. */
  #retire(): void {
    const { requests, streams } = this.#agents ?? {};
    this.#agents = undefined;
    for (const agent of [requests, streams]) {
      if (!agent) continue;
      Object.assign(agent, { keepAlive: false });
      for (const socket of Object.values(agent.freeSockets).flat()) socket?.destroy();
      this.#retired = [...this.#retired, agent];
    }
    this.#retired = this.#retired.filter(({ sockets }) => Object.keys(sockets).length > 0);
  }

  #once(request: TransportRequest): Promise<http.IncomingMessage> {
    const agents = this.#agentsFor(request.credentials);
    const options: https.RequestOptions = {
      hostname: this.#server.hostname.replace(/^\[|\]$/g, ""),
      port: this.#server.port,
      method: request.method,
      path: `${this.#server.pathname.replace(/\/$/, "")}${request.path}`,
      // Node changes none of the lists.
      headers: {
        ...(request.credentials.headers as http.OutgoingHttpHeaders),
        ...request.headers,
      },
      agent: request.streaming ? agents.streams : agents.requests,
    };
    const { signal } = request;
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      const outgoing = this.#isPlain
        ? httpModule().request(options, resolve)
        : https.request(options, resolve);
      // Node's own `signal` option costs a watcher of the whole stream for each request.
      const abort = (): void => void outgoing.destroy(reasonOf(signal));
      signal?.addEventListener("abort", abort, { once: true });
      outgoing.on("close", () => {
        signal?.removeEventListener("abort", abort);
        // After an answer or an error this does nothing. A switch of protocols gives neither of them.
        reject(unavailable(request, new Error("The connection was closed before the answer")));
      });
      outgoing.on("error", (error: NodeJS.ErrnoException) => {
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
      // A new certificate whose key is still the old one: those before go on until the server refuses them.
      if (this.#agents) return this.#agents;
      throw error;
    }
    this.#retire();
    this.#agents = next;
    return next;
  }

  #makeAgents(credentials: Credentials): Agents {
    // Below the load balancers' idle limits, so that a dead peer is noticed.
    const alive = { keepAlive: true, keepAliveMsecs: 30_000 };
    const requests = {
      ...alive,
      maxSockets: this.#maxConnections,
      scheduling: "lifo",
      // Idle connections beyond a few only cost memory on both sides.
      maxFreeSockets: 8,
    } as const;
    if (this.#isPlain) {
      const { Agent } = httpModule();
      return { credentials, requests: new Agent(requests), streams: new Agent(alive) };
    }
    const secure = secureOptions(credentials);
    return {
      credentials,
      requests: new OneServerAgent({ ...secure, ...requests }),
      streams: new OneServerAgent({ ...secure, ...alive }),
    };
  }
}

/** One context for all connections: each would parse the certificates again. */
function secureOptions({ ca, cert, key, serverName, verifyServer }: Credentials) {
  return {
    secureContext: tls.createSecureContext({ ca, cert, key }),
    ...(serverName !== undefined && { servername: serverName }),
    rejectUnauthorized: verifyServer,
  };
}

/** An agent that connects to one server with one set of credentials. */
class OneServerAgent extends https.Agent {
  /** The key of the connection pool. Node would join all options of the connection, for each request. */
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
}

const staleConnections = new WeakSet<Error>();

function isStaleConnection(error: unknown): boolean {
  return error instanceof Error && staleConnections.has(error);
}
