import type { ClientHttp2Session, ClientHttp2Stream } from "node:http2";
import { isIP } from "node:net";
import tls, { type TLSSocket } from "node:tls";
import { pause, untilAborted, withTimeout, type Clock } from "@kip/base";
import type { Answer, TransportRequest } from "./transport.ts";

/** Options of {@link SharedConnections}. */
export interface SharedConnectionsOptions {
  readonly server: URL;
  /** Certificate authorities, client certificate and server name, as for `tls.connect()`. */
  readonly secure: tls.ConnectionOptions;
  readonly clock: Clock;
}

/** Most concurrent requests on one connection, even if the server allows more. */
const maxStreams = 250;

/**
 * Assumed until the server's settings for the first connection arrive. With a lower limit, the rest moves to other connections.
 */
const assumedStreams = 100;

/** How often the server is pinged, and how long it has to answer, milliseconds. */
const pingMs = 30_000;

/** Time limit for a handshake, milliseconds. Without it, all requests for this connection could wait indefinitely. */
const handshakeMs = 20_000;

/**
 * How long a server that chose HTTP/1.1 is considered to lack HTTP/2, milliseconds. It may be one of several servers behind a
 * load balancer, or it may be updated later.
 */
const unsupportedMs = 300_000;

/** A connection may end or fill up just before a request uses it. */
const maxAttempts = 3;

/** REFUSED_STREAM in RFC 9113: the server has not processed the request. */
const refusedStream = 7;

/**
 * GET requests to one server that share HTTP/2 connections and one set of credentials. Each connection carries as many as the
 * server allows. It closes after its last request, or when its server answers no ping for 30 s.
 */
export class SharedConnections {
  readonly #options: SharedConnectionsOptions;
  readonly #connections = new Set<Connection>();
  #limit = assumedStreams;
  /** Until when the server is considered to lack HTTP/2, by the monotonic clock. */
  #unsupportedUntil = Number.NEGATIVE_INFINITY;

  constructor(options: SharedConnectionsOptions) {
    this.#options = options;
  }

  get isUsed(): boolean {
    return this.#connections.size > 0;
  }

  /**
   * Resolves with the head of the response. Undefined if no connection has room and the server did not support HTTP/2 within
   * the last five minutes. The signal applies until the head arrives. To cancel later, the reader of the body destroys it.
   *
   * @throws {Error} of the connection, or the signal's reason
   */
  async send(request: TransportRequest): Promise<Answer | undefined> {
    for (let attempt = 1; attempt <= maxAttempts; attempt++) {
      const free = [...this.#connections].find(({ hasRoom }) => hasRoom);
      if (!free && !this.#isSupported) return undefined;
      const stream = await this.#streamOn(free ?? this.#connect(), request);
      if (!stream) continue;
      try {
        return await answerOf(stream, request.signal);
      } catch (error) {
        if (stream.rstCode !== refusedStream || attempt === maxAttempts) throw error;
      }
    }
    if (!this.#isSupported) return undefined;
    throw new Error("The server closed each connection before a request could be made");
  }

  /** Ends all connections and the requests on them. */
  destroy(): void {
    for (const connection of this.#connections) connection.end();
  }

  get #isSupported(): boolean {
    return this.#options.clock.monotonic() >= this.#unsupportedUntil;
  }

  /** Sends the request on a connection. Undefined if the connection has ended or filled up in the meantime. */
  async #streamOn(
    connection: Connection,
    { method, path, headers, credentials, signal }: TransportRequest,
  ): Promise<ClientHttp2Stream | undefined> {
    connection.take();
    try {
      const session = await untilAborted(connection.session, signal);
      if (session && connection.isUsable) {
        const prefix = this.#options.server.pathname.replace(/\/$/, "");
        const stream = session.request({
          ...credentials.headers,
          ...headers,
          ":method": method,
          ":path": `${prefix}${path}`,
        });
        stream.once("close", () => connection.release());
        return stream;
      }
      if (!session) this.#unsupportedUntil = this.#options.clock.monotonic() + unsupportedMs;
    } catch (error) {
      connection.release();
      throw error;
    }
    connection.release();
    return undefined;
  }

  #connect(): Connection {
    const connection = new Connection(this.#options, {
      limit: this.#limit,
      onLimit: (limit) => (this.#limit = limit),
      onEnd: () => this.#connections.delete(connection),
    });
    this.#connections.add(connection);
    return connection;
  }
}

/** Receives the reports of a connection. */
interface ConnectionOwner {
  /** Most concurrent requests, until the server has sent its settings. */
  readonly limit: number;
  readonly onLimit: (limit: number) => void;
  readonly onEnd: () => void;
}

/** One connection, from its handshake on. */
class Connection {
  /** Rejects if the connection fails. Undefined if the server only supports HTTP/1.1. */
  readonly session: Promise<ClientHttp2Session | undefined>;
  readonly #socket: TLSSocket;
  readonly #clock: Clock;
  readonly #owner: ConnectionOwner;
  readonly #ended = new AbortController();
  #streams = 0;
  #limit: number;
  /** Whether it accepts further requests. */
  #isOpen = true;

  constructor({ server, secure, clock }: SharedConnectionsOptions, owner: ConnectionOwner) {
    const host = server.hostname.replace(/^\[|\]$/g, "");
    this.#clock = clock;
    this.#owner = owner;
    this.#limit = owner.limit;
    const target: tls.ConnectionOptions = {
      host,
      port: Number(server.port === "" ? 443 : server.port),
      ...(isIP(host) === 0 && { servername: host }),
      ...secure,
      ALPNProtocols: ["h2", "http/1.1"],
    };
    this.#socket = tls.connect(target);
    this.#socket.setNoDelay(true);
    this.session = withTimeout(() => this.#open(server), { limitMs: handshakeMs, clock });
    this.session.then(
      (session) => session ?? this.end(),
      () => this.end(), // those who wait for the connection get the failure
    );
  }

  get hasRoom(): boolean {
    return this.#isOpen && this.#streams < this.#limit;
  }

  /** Whether a caller that has already chosen this connection can send its request. */
  get isUsable(): boolean {
    return this.#isOpen && this.#streams <= this.#limit;
  }

  take(): void {
    this.#streams++;
  }

  release(): void {
    this.#streams--;
    if (this.#streams === 0) this.end();
  }

  end(): void {
    this.#isOpen = false;
    this.#ended.abort();
    this.#socket.destroy();
    this.#owner.onEnd();
  }

  async #open(server: URL): Promise<ClientHttp2Session | undefined> {
    const socket = this.#socket;
    await first(socket, "secureConnect");
    if (socket.alpnProtocol !== "h2") return undefined;
    const http2 = process.getBuiltinModule("node:http2"); // loaded only if needed
    const settings = { enablePush: false };
    const session = http2.connect(server.origin, { settings, createConnection: () => socket });
    session.on("error", () => {}); // requests report the failures of the connection
    session.on("goaway", () => (this.#isOpen = false)); // requests under way may finish
    session.on("close", () => this.end());
    session.on("remoteSettings", ({ maxConcurrentStreams = maxStreams }) => {
      this.#limit = Math.max(1, Math.min(maxStreams, maxConcurrentStreams));
      this.#owner.onLimit(this.#limit);
    });
    await first(session, "remoteSettings");
    void this.#ping(session);
    return session;
  }

  async #ping(session: ClientHttp2Session): Promise<void> {
    let isAnswered = true;
    while (await pause(pingMs, this.#clock, this.#ended.signal)) {
      if (!isAnswered) {
        session.destroy(new Error(`The server answered no ping for ${pingMs / 1000} s`));
        return;
      }
      isAnswered = false;
      // After a GOAWAY, Node sends no ping and reports an error. Remaining requests are then repeated on another connection.
      session.ping((error) => {
        if (!error) isAnswered = true;
      });
    }
  }
}

/** Resolves with an event of a connection that is being established. @throws {Error} of the connection */
async function first(emitter: TLSSocket | ClientHttp2Session, event: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  emitter.once(event, () => resolve());
  emitter.on("error", reject);
  emitter.once("close", () => reject(new Error("The connection was closed in its handshake")));
  await promise;
}

/** The head of a response. There are thousands of bodies, so a body keeps neither the signal nor a promise alive. */
async function answerOf(
  stream: ClientHttp2Stream,
  signal: AbortSignal | undefined,
): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const abort = (): void => {
    stream.destroy(signal?.reason instanceof Error ? signal.reason : undefined);
  };
  const onClose = (): void => reject(new Error("The connection was closed before the answer"));
  signal?.addEventListener("abort", abort, { once: true });
  stream.once("response", (headers) => {
    resolve({ status: headers[":status"] ?? 0, headers, body: stream });
  });
  stream.on("error", reject);
  stream.once("close", onClose);
  try {
    return await promise;
  } finally {
    signal?.removeEventListener("abort", abort);
    stream.on("error", ignore); // an error may arrive before the body is read
    stream.off("error", reject);
    stream.off("close", onClose);
  }
}

function ignore(): void {}
