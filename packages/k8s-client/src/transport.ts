import http from "node:http";
import https from "node:https";
import type { Credentials } from "./kubeconfig.ts";
import { unavailable } from "./status-error.ts";

/** One request of {@link Transport.send}. */
export interface TransportRequest {
  readonly method: string;
  /** Path with query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
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

  constructor(server: string, maxConnections: number) {
    this.#server = new URL(server);
    this.#maxConnections = maxConnections;
  }

  /**
   * Resolves with the head of the answer; the body is read from it.
   *
   * @throws {KipError} code `K8S_UNAVAILABLE`, or the signal's reason
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

  /** Closes idle connections. */
  close(): void {
    this.#agents?.requests.destroy();
    this.#agents?.streams.destroy();
    this.#agents = undefined;
  }

  #once(request: TransportRequest): Promise<http.IncomingMessage> {
    const agents = this.#agentsFor(request.credentials);
    const options: https.RequestOptions = {
      hostname: this.#server.hostname.replace(/^\[|\]$/g, ""),
      port: this.#server.port,
      method: request.method,
      path: `${this.#server.pathname.replace(/\/$/, "")}${request.path}`,
      headers: { ...request.credentials.headers, ...request.headers },
      agent: request.streaming ? agents.streams : agents.requests,
      ...(request.signal && { signal: request.signal }),
    };
    return new Promise((resolve, reject) => {
      const module = this.#server.protocol === "http:" ? http : https;
      const outgoing = module.request(options, resolve);
      outgoing.on("error", (error: NodeJS.ErrnoException) => {
        if (request.signal?.aborted === true) {
          reject(request.signal.reason instanceof Error ? request.signal.reason : error);
          return;
        }
        const failed = unavailable(request, error);
        if (outgoing.reusedSocket && error.code === "ECONNRESET") staleConnections.add(failed);
        reject(failed);
      });
      outgoing.end(request.body);
    });
  }

  #agentsFor(credentials: Credentials): Agents {
    if (this.#agents?.credentials === credentials) return this.#agents;
    this.close();
    const tls = {
      ...(credentials.ca && { ca: credentials.ca }),
      ...(credentials.cert && { cert: credentials.cert }),
      ...(credentials.key && { key: credentials.key }),
      ...(credentials.serverName !== undefined && { servername: credentials.serverName }),
      rejectUnauthorized: credentials.verifyServer,
      keepAlive: true,
      // Below the load balancers' idle limits, so that a dead peer is noticed.
      keepAliveMsecs: 30_000,
    };
    const module = this.#server.protocol === "http:" ? http : https;
    this.#agents = {
      credentials,
      requests: new module.Agent({
        ...tls,
        maxSockets: this.#maxConnections,
        scheduling: "lifo",
        // Idle connections beyond a few only cost memory on both sides.
        maxFreeSockets: 8,
      }),
      streams: new module.Agent(tls),
    };
    return this.#agents;
  }
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
