import {
  constants,
  type ClientHttp2Session,
  type ClientHttp2Stream,
  type OutgoingHttpHeaders,
} from "node:http2";
import type { Socket } from "node:net";
import type { Duplex, Readable } from "node:stream";
import {
  bytesOf,
  isCodedError,
  systemClock,
  type Decoder,
  type Logger,
  type ProcessStreams,
} from "@kip/base";
import { AgentError } from "./errors.ts";
import { decodeAgentInfo, type AgentInfo, type CellIdentity } from "./agent-info.ts";
import { decodeAgentStats, type AgentStats } from "./agent-stats.ts";
import { decodeAnswer, readError, readText } from "./answers.ts";
import { decodePodTaken, type DesiredPod } from "./desired-pod.ts";
import { EventLoopBudget } from "./event-loop-budget.ts";
import { FloodGuard } from "./flood-guard.ts";
import { keepAlive } from "./keep-alive.ts";
import { limitSeconds } from "./longest-seconds.ts";
import { LatestLine, longestReport } from "./latest-line.ts";
import {
  openSession,
  openTcp,
  unreachable,
  widenWindows,
  type PeerOptions,
} from "./open-session.ts";
import { decodePodReport, type PodReport } from "./pod-report.ts";
import { sendNetwork, type NetworkChanges, type NetworkHello } from "./network-stream.ts";
import { relayProcess, type AgentProcessExit } from "./relay-process.ts";
import { agentPort, apiVersion } from "./routes.ts";

/** Options of {@link AgentClient.connect}. */
export interface AgentClientOptions extends PeerOptions {
  /** @default agentPort (6421) */
  readonly port?: number;
  readonly logger: Logger;
  /** Gives up connecting. Does not close an established connection. */
  readonly signal?: AbortSignal;
  /** Limit for TCP connect and for the TLS handshake, each, milliseconds. @default 10000 */
  readonly connectTimeoutMs?: number;
  /** Limit for the head of an answer, and then for its text if it is read as a whole, milliseconds. @default 30000 */
  readonly answerTimeoutMs?: number;
}

/** Options of {@link AgentClient.logs}. */
export interface AgentLogOptions {
  readonly follow?: boolean;
  /** The log of the run before the present one. */
  readonly previous?: boolean;
  readonly timestamps?: boolean;
  /** Lines from the end, 0 or more. */
  readonly tailLines?: number;
  /** Lines that begin in so many bytes before the end of the log as it is stored; not with `tailLines`. */
  readonly tailBytes?: number;
  /** Milliseconds since the epoch. */
  readonly sinceTimeMs?: number;
  /** Largest answer in bytes, 1 or more. */
  readonly limitBytes?: number;
}

/** Longest command in a path, bytes: HTTP/2 in Node takes no header above 64 KiB. */
const maxPathBytes = 32 * 1024;

const connectTimeoutMs = 10_000;
const answerTimeoutMs = 30_000;
/** How often a connection is checked for frames that were not asked for, milliseconds. */
const floodCheckMs = 1000;
/**
 * What a piece of a body, and a byte of it, cost before anybody reads it: TLS, HTTP/2 and events, milliseconds of
 * processor time. A hostile cell sends pieces of one byte.
 */
const pieceCostMs = 0.005;
const byteCostMs = 1e-5;
/** What a report costs those who read it, besides what is measured: its writes to the API, milliseconds. */
const reportCostMs = 2;

/**
 * One HTTP/2 connection to the agent of one cell. Every call is one attempt; `AGENT_UNREACHABLE`
 * (retryable) says that the connection is gone and a new client is needed.
 *
 * The agent is not trusted: its answers are bounded in size and rate and decoded.
 */
export class AgentClient implements AsyncDisposable {
  /** Resolves when the connection is gone, for whatever reason. */
  readonly closed: Promise<void>;
  /** When the agent's machine accepted the connection, milliseconds since the epoch. */
  readonly answeredAtMs: number;
  readonly #session: ClientHttp2Session;
  readonly #peer: AgentClientOptions;

  readonly #flood: FloodGuard;
  #hasWideWindows = false;

  private constructor(
    session: ClientHttp2Session,
    options: AgentClientOptions & { readonly answeredAtMs: number; readonly socket: Socket },
  ) {
    this.#session = session;
    this.#peer = options;
    this.answeredAtMs = options.answeredAtMs;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.closed = promise;
    session.once("close", () => resolve());
    const { socket } = options;
    this.#flood = new FloodGuard(() => socket.bytesRead, systemClock.monotonic());
    this.#watchFlood();
    keepAlive(session);
  }

  /**
   * Connects once.
   *
   * @throws {AgentError} code `AGENT_UNREACHABLE` (retryable) or `AGENT_IDENTITY_INVALID`
   */
  static async connect(options: AgentClientOptions): Promise<AgentClient> {
    const timeoutMs = options.connectTimeoutMs ?? connectTimeoutMs;
    const limits = { timeoutMs, signal: options.signal };
    const socket = await openTcp(options, { port: options.port ?? agentPort, ...limits });
    return await AgentClient.over(socket, options);
  }

  /** Speaks to the agent over an accepted TCP connection. @throws as {@link AgentClient.connect} */
  static async over(socket: Socket, options: AgentClientOptions): Promise<AgentClient> {
    const answeredAtMs = systemClock.now();
    const session = await openSession(socket, options, {
      timeoutMs: options.connectTimeoutMs ?? connectTimeoutMs,
      signal: options.signal,
    });
    return new AgentClient(session, { ...options, answeredAtMs, socket });
  }

  /** Facts about the agent and its machine. */
  async info(signal?: AbortSignal): Promise<AgentInfo> {
    return await this.#json("GET", "info", { signal, decoder: decodeAgentInfo });
  }

  /**
   * Gives the cell its pod, or the pod's changed parts. Idempotent by UID and generation. Resolves with the generation
   * that the agent has now: a higher one than was sent says that this was ignored. Agents of earlier versions do not say.
   *
   * @throws {AgentError} code `AGENT_OTHER_POD` when the cell has another pod
   */
  async putPod(pod: DesiredPod, signal?: AbortSignal): Promise<number | undefined> {
    const answer = await this.#json("PUT", "pod", { body: pod, signal, decoder: decodePodTaken });
    return answer.generation;
  }

  /**
   * Asks the agent to stop the pod within the grace period (whole seconds, 0 or more). A later call
   * may only shorten it. The reports tell the progress.
   *
   * @throws {AgentError} code `AGENT_NO_POD` when there is none
   */
  async deletePod(graceSeconds: number, signal?: AbortSignal): Promise<void> {
    await this.#json("DELETE", `pod?graceSeconds=${limitSeconds(graceSeconds)}`, { signal });
  }

  /**
   * The pod's state, now and at every change; reports that came while the reader was busy are
   * skipped in favour of the newest. Ends when the signal aborts.
   *
   * @param containers how many the pod has at present, of all kinds: longer reports are read of a pod of many. @default 1000
   * @throws {AgentError} code `AGENT_UNREACHABLE` when the connection is lost
   */
  async *status(
    signal: AbortSignal,
    containers = (): number => 1000,
  ): AsyncGenerator<PodReport, void, void> {
    if (signal.aborted) return;
    try {
      const lines = new LatestLine(() => longestReport(containers()));
      // A cell that sends without pause is read slowly; HTTP/2 flow control makes it wait.
      const budget = new EventLoopBudget(systemClock);
      const onPiece = (bytes: number): void => budget.charge(pieceCostMs + bytes * byteCostMs);
      const stream = await this.#open("GET", "status", { signal, onPiece });
      const chunks = bytesOf(stream)[Symbol.asyncIterator]();
      try {
        const take = async () => await nextReport(chunks, { lines, budget, signal });
        for (let next = await take(); next.done !== true; next = await take())
          if (next.value) yield next.value;
      } finally {
        await chunks.return?.();
      }
    } catch (error) {
      if (signal.aborted) return;
      throw this.#lost(error);
    }
    if (!signal.aborted) throw this.#lost("the status stream ended");
  }

  /**
   * The log of a container, as plain text; with `follow` it ends with the container or the signal. Reading it fails if the
   * connection is lost before its end.
   */
  async logs(container: string, options: AgentLogOptions, signal: AbortSignal): Promise<Readable> {
    const query = new URLSearchParams();
    for (const flag of ["follow", "previous", "timestamps"] as const)
      if (options[flag] === true) query.set(flag, "1");
    if (options.tailLines !== undefined) query.set("tailLines", String(options.tailLines));
    if (options.tailBytes !== undefined) query.set("tailBytes", String(options.tailBytes));
    if (options.limitBytes !== undefined) query.set("limitBytes", String(options.limitBytes));
    if (options.sinceTimeMs !== undefined)
      query.set("sinceTime", new Date(options.sinceTimeMs).toISOString());
    const path = `logs/${encodeURIComponent(container)}?${query.toString()}`;
    return await this.#open("GET", path, { signal, kind: "download" });
  }

  /**
   * Runs a command in a container and resolves when it has ended. A command that takes more than 32 KiB
   * of the path goes in frames; an agent that does not know them refuses it as `AGENT_REQUEST_INVALID`.
   *
   * @throws {AgentError} code `AGENT_CONTAINER_NOT_RUNNING`, `AGENT_PROCESS_FAILED`, `AGENT_UNREACHABLE`
   */
  async exec(
    container: string,
    command: readonly string[],
    streams: ProcessStreams,
    signal: AbortSignal,
  ): Promise<AgentProcessExit> {
    const query = streamQuery(streams);
    const words = new URLSearchParams(command.map((word): [string, string] => ["command", word]));
    const path = `exec/${encodeURIComponent(container)}?${query.toString()}`;
    if (words.toString().length <= maxPathBytes)
      return await this.#process(`${path}&${words.toString()}`, streams, signal);
    return await this.#process(`${path}&commandFrames=1`, streams, signal, command);
  }

  /** Connects to the main process of a container; resolves when it has ended. @throws as exec */
  async attach(
    container: string,
    streams: ProcessStreams,
    signal: AbortSignal,
  ): Promise<AgentProcessExit> {
    const path = `attach/${encodeURIComponent(container)}?${streamQuery(streams).toString()}`;
    return await this.#process(path, streams, signal);
  }

  /** A connection to a port of the pod, as a process in the pod would make to localhost. */
  async portForward(port: number, signal: AbortSignal): Promise<Duplex> {
    return await this.#open("POST", `portforward?port=${port}`, { signal, kind: "duplex" });
  }

  /**
   * Keeps the cell's rules for Services and policies up to date until the signal aborts.
   *
   * @param open gives the changes for a cell that has begun like this, see `network-view`
   * @throws {AgentError} code `AGENT_NOT_FOUND` if the agent does not know the call, `AGENT_UNREACHABLE`, `AGENT_ANSWER_INVALID`
   */
  async sendNetwork(
    open: (hello: NetworkHello) => NetworkChanges,
    signal: AbortSignal,
  ): Promise<void> {
    if (signal.aborted) return;
    try {
      const stream = await this.#open("POST", "network", { signal, kind: "lines" });
      await sendNetwork(stream, open, signal);
    } catch (error) {
      if (!signal.aborted) throw this.#lost(error);
    }
  }

  /** What the containers and the agent use. */
  async stats(signal?: AbortSignal): Promise<AgentStats> {
    return await this.#json("GET", "stats", { signal, decoder: decodeAgentStats });
  }

  /** Replaces the agent's certificate; connections made after this see the new one. */
  async putIdentity(identity: CellIdentity, signal?: AbortSignal): Promise<void> {
    await this.#json("PUT", "identity", { body: identity, signal });
  }

  /** Closes the connection and everything on it. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#session.destroy();
    await this.closed;
  }

  async #process(
    path: string,
    streams: ProcessStreams,
    signal: AbortSignal,
    command?: readonly string[],
  ): Promise<AgentProcessExit> {
    const stream = await this.#open("POST", path, { signal, kind: "duplex" });
    try {
      return await relayProcess(stream, streams, command);
    } catch (error) {
      signal.throwIfAborted();
      throw this.#lost(error);
    }
  }

  async #json<T = void>(
    method: string,
    path: string,
    options: {
      readonly body?: unknown;
      readonly signal: AbortSignal | undefined;
      readonly decoder?: Decoder<T>;
    },
  ): Promise<T> {
    const stream = await this.#open(method, path, options);
    try {
      const text = await this.#withTimeout(stream, readText(stream));
      // Without a decoder T is void.
      if (!options.decoder) return undefined as T;
      return decodeAnswer(text === "" ? "{}" : text, options.decoder);
    } catch (error) {
      throw this.#lost(error);
    } finally {
      closeUnwritten(stream);
    }
  }

  /** Sends a request and waits for the head of the answer; the stream then is the answer's body. */
  async #open(
    method: string,
    path: string,
    options: {
      readonly body?: unknown;
      readonly signal: AbortSignal | undefined;
      /** Called with the length of each piece of the answer's body, before it is read. */
      readonly onPiece?: (bytes: number) => void;
      /** What follows the heads: a document each way, one long answer, or bytes or lines both ways. @default "document" */
      readonly kind?: "document" | "download" | "duplex" | "lines";
    },
  ): Promise<ClientHttp2Stream> {
    options.signal?.throwIfAborted();
    if (this.#session.closed || this.#session.destroyed) throw this.#lost("the connection is gone");
    const { kind } = options;
    const headers: OutgoingHttpHeaders = { ":method": method, ":path": `/${apiVersion}/${path}` };
    const hasBody = options.body !== undefined || kind === "duplex" || kind === "lines";
    const stream = this.#session.request(headers, {
      endStream: !hasBody,
      signal: options.signal,
    });
    // The listener that reads reports it; this one only keeps an error in between from ending the process.
    stream.on("error", () => {});
    this.#watchContent(stream, options.onPiece);
    if ((kind === "download" || kind === "duplex") && !this.#hasWideWindows) {
      this.#hasWideWindows = true;
      widenWindows(this.#session);
    }
    if (options.body !== undefined) stream.end(JSON.stringify(options.body));
    let status: number;
    try {
      status = await this.#withTimeout(stream, responseStatus(stream));
    } catch (error) {
      stream.destroy();
      options.signal?.throwIfAborted();
      throw this.#lost(error);
    }
    if (status < 300) return stream;
    const refusal = await this.#withTimeout(stream, readError(stream, status));
    closeUnwritten(stream);
    throw refusal;
  }

  /** Ends the stream if reading it takes too long. */
  async #withTimeout<T>(stream: ClientHttp2Stream, read: Promise<T>): Promise<T> {
    const late = (): void => void stream.destroy(new Error("no answer in time"));
    const timer = setTimeout(late, this.#peer.answerTimeoutMs ?? answerTimeoutMs);
    try {
      return await read;
    } finally {
      clearTimeout(timer);
    }
  }

  #lost(error: unknown): Error {
    if (isCodedError(error)) return error;
    return unreachable(this.#peer, error);
  }

  /**
   * Every piece of the answer's body passes through `push`, however it is read, and so does its end. Node ends an answer without
   * an error, too, when the connection closes in the middle of it; only the code of the stream shows that.
   */
  #watchContent(stream: ClientHttp2Stream, onPiece: ((bytes: number) => void) | undefined): void {
    const push = stream.push.bind(stream);
    stream.push = (piece: Buffer | null, encoding?: BufferEncoding) => {
      if (piece === null && stream.rstCode !== constants.NGHTTP2_NO_ERROR) {
        stream.destroy(this.#lost("the connection was closed before the end of the answer"));
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
 * Reads what has come next, and the report that it ends, if it does. A function of its own: a loop over the stream would hold on
 * to the bytes, and with them to the pool of 64 KiB that they are a part of, until the cell has something to say again.
 */
async function nextReport(
  chunks: AsyncIterator<Buffer>,
  {
    lines,
    budget,
    signal,
  }: {
    readonly lines: LatestLine;
    readonly budget: EventLoopBudget;
    readonly signal: AbortSignal;
  },
): Promise<IteratorResult<PodReport | undefined, void>> {
  const chunk = await chunks.next();
  if (chunk.done === true) return { done: true, value: undefined };
  const line = budget.spend(() => lines.push(chunk.value));
  await budget.settle(signal);
  if (line === undefined) return { value: undefined };
  budget.charge(reportCostMs);
  return { value: budget.spend(() => decodeAnswer(line, decodePodReport)) };
}

/**
 * Ends a request whose answer was read. An agent can answer before it reads: what it has not read would stay in memory for as long as
 * the connection lives.
 */
function closeUnwritten(stream: ClientHttp2Stream): void {
  if (!stream.writableFinished) stream.close(constants.NGHTTP2_CANCEL);
}

function streamQuery(streams: ProcessStreams): URLSearchParams {
  const query = new URLSearchParams();
  for (const name of ["stdin", "stdout", "stderr"] as const)
    if (streams[name]) query.set(name, "1");
  if (streams.tty) query.set("tty", "1");
  return query;
}

async function responseStatus(stream: ClientHttp2Stream): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  stream.once("response", (headers) => resolve(headers[":status"] ?? 0));
  stream.once("error", reject);
  stream.once("close", () => reject(new Error("the connection was closed")));
  return await promise;
}
