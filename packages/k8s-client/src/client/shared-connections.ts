import type { ClientHttp2Session, ClientHttp2Stream } from "node:http2";
import { isIP } from "node:net";
import tls, { type TLSSocket } from "node:tls";
import { pause, untilAborted, withTimeout, type Clock } from "@kip/base";
import type { Answer, TransportRequest } from "./transport.ts";

/** How {@link SharedConnections} connects. */
export interface SharedConnectionsOptions {
  readonly server: URL;
  /** Authorities, certificate and name, as for `tls.connect()`. */
  readonly secure: tls.ConnectionOptions;
  readonly clock: Clock;
}

/** Requests at a time on one connection at most, where the server allows more. */
const maxStreams = 250;

/** Assumed until the first connection has the server's settings. With a lower limit, the rest moves to further connections. */
const assumedStreams = 100;

/** How often the server is asked for a sign of life, and how long it has to answer. */
const pingMs = 30_000;

/** Longest for a handshake, milliseconds: all who wait would wait for this connection, however often they try again. */
const handshakeMs = 20_000;

/**
 * How long a server counts as one without HTTP/2 after it chose HTTP/1.1, milliseconds: one of several behind a load balancer may
 * answer so, or all of them until they are updated.
 */
const unsupportedMs = 300_000;

/** A connection may end or fill up just before a request takes it. */
const maxAttempts = 3;

/** Of RFC 9113: the server has not looked at the request. */
const refusedStream = 7;

/**
 * GET requests that share HTTP/2 connections to one server, with one set of credentials: as many on each connection as the
 * server allows. A connection is closed with its last request, and when its server answers no ping for 30 s.
 */
export class SharedConnections {
  readonly #options: SharedConnectionsOptions;
  readonly #connections = new Set<Connection>();
  #limit = assumedStreams;
  /** Until when the server counts as one without HTTP/2, by the monotonic clock. */
  #unsupportedUntil = Number.NEGATIVE_INFINITY;

  constructor(options: SharedConnectionsOptions) {
    this.#options = options;
  }

  get isUsed(): boolean {
    return this.#connections.size > 0;
  }

  /**
   * Resolves with the head of the answer; undefined if no connection has room, and the server did not speak HTTP/2 when it was asked
   * in the last five minutes, as a load balancer may not. The signal counts until then: who reads the body ends it by destroying it.
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

  /** Ends all connections, with what is under way. */
  destroy(): void {
    for (const connection of this.#connections) connection.end();
  }

  get #isSupported(): boolean {
    return this.#options.clock.monotonic() >= this.#unsupportedUntil;
  }

  /** Makes the request on a connection; undefined if that has ended or filled up meanwhile. */
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

/** What a connection reports to. */
interface ConnectionOwner {
  /** Requests at a time until its server has sent its settings. */
  readonly limit: number;
  readonly onLimit: (limit: number) => void;
  readonly onEnd: () => void;
}

/** One connection, from the handshake on. */
class Connection {
  /** Rejects if there is no connection; undefined: the server speaks HTTP/1.1 alone. */
  readonly session: Promise<ClientHttp2Session | undefined>;
  readonly #socket: TLSSocket;
  readonly #clock: Clock;
  readonly #owner: ConnectionOwner;
  readonly #ended = new AbortController();
  #streams = 0;
  #limit: number;
  /** It takes further requests. */
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
      () => this.end(), // those who wait for it see the failure
    );
  }

  get hasRoom(): boolean {
    return this.#isOpen && this.#streams < this.#limit;
  }

  /** Whether one of those who have taken it can make a request. */
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
    const http2 = process.getBuiltinModule("node:http2"); // loaded only where it is needed
    const settings = { enablePush: false };
    const session = http2.connect(server.origin, { settings, createConnection: () => socket });
    session.on("error", () => {}); // requests carry the failures of the connection
    session.on("goaway", () => (this.#isOpen = false)); // what is under way may go on
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
      // After a GOAWAY Node sends none, and says so: what is still under way then is repeated on another connection.
      session.ping((error) => {
        if (!error) isAnswered = true;
      });
    }
  }
}

/** Resolves with an event of a connection in the making. @throws {Error} of the connection */
async function first(emitter: TLSSocket | ClientHttp2Session, event: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  emitter.once(event, () => resolve());
  emitter.on("error", reject);
  emitter.once("close", () => reject(new Error("The connection was closed in its handshake")));
  await promise;
}

/** The head of an answer. Its body holds neither signal nor promise: there are thousands of them. */
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
    stream.on("error", ignore); // it may come before the body is read
    stream.off("error", reject);
    stream.off("close", onClose);
  }
}

function ignore(): void {}
