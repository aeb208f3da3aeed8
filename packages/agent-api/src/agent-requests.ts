import {
  constants,
  type ClientHttp2Session,
  type ClientHttp2Stream,
  type OutgoingHttpHeaders,
} from "node:http2";
import type { Socket } from "node:net";
import {
  holdSmallWrites,
  isCodedError,
  mergeSmallPieces,
  systemClock,
  type Decoder,
  type PiecePace,
} from "@kip/base";
import { decodeAnswer, readError, readText } from "./answers.ts";
import { BulkWindows, maxWindowBytes } from "./bulk-windows.ts";
import { AgentError } from "./errors.ts";
import { EventLoopBudget, pieceCostMs } from "./event-loop-budget.ts";
import { FloodGuard } from "./flood-guard.ts";
import { keepAlive } from "./keep-alive.ts";
import { unreachable, type PeerOptions } from "./open-session.ts";
import { apiVersion } from "./routes.ts";

const answerTimeoutMs = 30_000;
/** Pieces below this length cost more per piece than for their bytes. Applies to streams for clients of the cluster. */
const tinyPieceBytes = 512;
/** How often to check a connection for frames that were not requested, milliseconds. */
const floodCheckMs = 1000;

/** Most streams of a connection for clients of the cluster. */
const maxClientStreams = 250;
/**
 * Streams of a connection that are left for kip's own requests. Without them, those would wait until a client leaves, and the pod
 * could not be stopped. Matters for agents of earlier versions, which accept 250 streams.
 */
const ownStreams = 16;

/** All connections share the memory of this process. */
const bulkWindows = new BulkWindows();

/** Options of {@link AgentRequests}. */
export interface AgentRequestsOptions {
  readonly peer: Pick<PeerOptions, "address" | "cellName">;
  /** The session's socket. */
  readonly socket: Socket;
  /** Time limit for the head of a response, and again for its body if that is read as a whole, milliseconds. @default 30000 */
  readonly answerTimeoutMs?: number | undefined;
}

/** Requests on one connection to an agent. Each is sent once, and responses are limited in time, length and rate. */
export class AgentRequests implements AsyncDisposable {
  /** Resolves when the connection has ended, for any reason. */
  readonly closed: Promise<void>;
  readonly #session: ClientHttp2Session;
  readonly #options: AgentRequestsOptions;
  readonly #flood: FloodGuard;
  /** Limits streams for clients of the cluster: a cell that sends single bytes without pause is read slowly. */
  readonly #budget = new EventLoopBudget(systemClock);
  /** Open streams for clients of the cluster. */
  #clientStreams = 0;

  constructor(session: ClientHttp2Session, options: AgentRequestsOptions) {
    this.#session = session;
    this.#options = options;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.closed = promise;
    session.once("close", () => resolve());
    const { socket } = options;
    this.#flood = new FloodGuard(() => socket.bytesRead, systemClock.monotonic());
    this.#watchFlood();
    keepAlive(session);
  }

  /** Whether the connection accepts no more requests. */
  get isClosing(): boolean {
    return this.#session.closed || this.#session.destroyed;
  }

  /** Sends an optional document and reads one. @throws {AgentError} also with codes from the agent */
  async json<T = void>(
    method: string,
    path: string,
    options: {
      readonly body?: unknown;
      readonly signal: AbortSignal | undefined;
      readonly decoder?: Decoder<T>;
      /** Maximum size of the document, bytes. @default 256 KiB */
      readonly maxBytes?: number;
    },
  ): Promise<T> {
    const stream = await this.open(method, path, options);
    try {
      const text = await this.#withTimeout(stream, readText(stream, options.maxBytes));
      // Without a decoder, T is void.
      if (!options.decoder) return undefined as T;
      return decodeAnswer(text === "" ? "{}" : text, options.decoder);
    } catch (error) {
      throw this.lost(error);
    } finally {
      closeUnwritten(stream);
    }
  }

  /** Sends a request and waits for the head of the response. The returned stream is the response's body. */
  async open(
    method: string,
    path: string,
    options: {
      readonly body?: unknown;
      readonly signal: AbortSignal | undefined;
      /** Called with the length of each piece of the response's body, before it is read. */
      readonly onPiece?: (bytes: number) => void;
      /**
       * The kind of the bodies: a document each way; one long response, for a client of the cluster or for kip itself; bytes
       * both ways for such a client; or lines both ways. @default "document"
       */
      readonly kind?: "document" | "download" | "copy" | "duplex" | "lines";
    },
  ): Promise<ClientHttp2Stream> {
    options.signal?.throwIfAborted();
    if (this.isClosing) throw this.lost("the connection is gone");
    const { kind } = options;
    const isForClient = kind === "download" || kind === "duplex";
    const isBulk = isForClient || kind === "copy";
    if (isForClient) this.#checkRoom();
    const headers: OutgoingHttpHeaders = { ":method": method, ":path": `/${apiVersion}/${path}` };
    const hasBody = options.body !== undefined || kind === "duplex" || kind === "lines";
    const stream = this.#session.request(headers, {
      endStream: !hasBody,
      signal: options.signal,
    });
    // Readers of the stream get its errors. This listener only keeps an error that comes earlier from ending the process.
    stream.on("error", () => {});
    mergeSmallPieces(stream, isBulk ? this.#paceOf(stream) : undefined);
    if (kind === "duplex") {
      holdSmallWrites(stream);
      stream.setMaxListeners(20); // copies in both directions add listeners to ours
    }
    this.#watchContent(stream, options.onPiece);
    if (isBulk) this.#addBulk(stream, isForClient ? 1 : 0);
    if (options.body !== undefined) stream.end(JSON.stringify(options.body));
    let status: number;
    try {
      status = await this.#withTimeout(stream, responseStatus(stream));
    } catch (error) {
      stream.destroy();
      options.signal?.throwIfAborted();
      throw this.lost(error);
    }
    if (status < 300) return stream;
    const refusal = await this.#withTimeout(stream, readError(stream, status));
    closeUnwritten(stream);
    throw refusal;
  }

  /** The meaning of an error that does not come from the agent: the connection is lost. */
  lost(error: unknown): Error {
    if (isCodedError(error)) return error;
    return unreachable(this.#options.peer, error);
  }

  /** Closes the connection and all streams on it. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#session.destroy();
    await this.closed;
  }

  /** @throws {AgentError} code `AGENT_BUSY` */
  #checkRoom(): void {
    const { maxConcurrentStreams = Infinity } = this.#session.remoteSettings;
    const most = Math.min(maxClientStreams, maxConcurrentStreams - ownStreams);
    if (this.#clientStreams < most) return;
    const uses = "exec, attach, port-forward and logs";
    throw new AgentError(
      "AGENT_BUSY",
      `Cannot open a stream to cell "${this.#options.peer.cellName}": it has ${this.#clientStreams} for ${uses} already`,
      { retryable: true, remedy: "Close some of them, or try again later" },
    );
  }

  #addBulk(stream: ClientHttp2Stream, ofClients: 0 | 1): void {
    bulkWindows.add(this.#session, stream);
    this.#clientStreams += ofClients;
    stream.once("close", () => {
      this.#clientStreams -= ofClients;
      // The rest of its content still arrives, but not in `push`.
      if (!stream.readableEnded) this.#flood.brokenOff(maxWindowBytes);
    });
  }

  #paceOf(stream: ClientHttp2Stream): PiecePace {
    const closed = new AbortController();
    stream.once("close", () => closed.abort());
    return {
      received: (bytes) => void (bytes < tinyPieceBytes && this.#budget.charge(pieceCostMs)),
      wait: () => this.#budget.wait(closed.signal),
    };
  }

  /** Ends the stream if reading it takes too long. */
  async #withTimeout<T>(stream: ClientHttp2Stream, read: Promise<T>): Promise<T> {
    const late = (): void => void stream.destroy(new Error("no answer in time"));
    const timer = setTimeout(late, this.#options.answerTimeoutMs ?? answerTimeoutMs);
    try {
      return await read;
    } finally {
      clearTimeout(timer);
    }
  }

  /**
   * Watches `push`, through which every piece of the response's body and its end pass, however it is read. If the connection
   * closes in the middle of a response, Node still ends it without an error. Only the stream's code shows the difference.
   */
  #watchContent(stream: ClientHttp2Stream, onPiece: ((bytes: number) => void) | undefined): void {
    const push = stream.push.bind(stream);
    stream.push = (piece: Buffer | null, encoding?: BufferEncoding) => {
      if (piece === null && stream.rstCode !== constants.NGHTTP2_NO_ERROR) {
        stream.destroy(this.lost("the connection was closed before the end of the answer"));
        return false;
      }
      this.#flood.received(piece?.length ?? 0);
      onPiece?.(piece?.length ?? 0);
      return push(piece, encoding);
    };
  }

  #watchFlood(): void {
    const timer = setInterval(() => {
      if (this.#session.destroyed || !this.#flood.isFlooded(systemClock.monotonic())) return;
      const reason = "it sends frames that were not asked for";
      this.#session.destroy(
        new AgentError("AGENT_ANSWER_INVALID", `Cannot read the answers of a cell: ${reason}`),
      );
    }, floodCheckMs);
    timer.unref();
    this.#session.once("close", () => clearInterval(timer));
  }
}

/**
 * Ends a request whose response was read. An agent may respond before it reads the request. The unsent rest would stay in
 * memory for the life of the connection.
 */
function closeUnwritten(stream: ClientHttp2Stream): void {
  if (!stream.writableFinished) stream.close(constants.NGHTTP2_CANCEL);
}

async function responseStatus(stream: ClientHttp2Stream): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const onClose = (): void => reject(new Error("the connection was closed"));
  stream.once("response", (headers) => resolve(headers[":status"] ?? 0));
  stream.once("error", reject);
  stream.once("close", onClose);
  try {
    return await promise;
  } finally {
    stream.off("error", reject);
    stream.off("close", onClose); // an error with a stack trace for each stream would cost more than its end
  }
}
