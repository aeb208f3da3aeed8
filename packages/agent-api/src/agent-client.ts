import type { Socket } from "node:net";
import type { Duplex, Readable } from "node:stream";
import { finished } from "node:stream/promises";
import { systemClock, type Logger, type ProcessStreams } from "@kip/base";
import { decodeAgentInfo, type AgentInfo, type CellIdentity } from "./agent-info.ts";
import { AgentRequests } from "./agent-requests.ts";
import { decodeAgentStats, type AgentStats } from "./agent-stats.ts";
import { maxStatsBytes } from "./answers.ts";
import { decodePodTaken, type DesiredPod } from "./desired-pod.ts";
import { limitSeconds } from "./longest-seconds.ts";
import { openSession, openTcp, type PeerOptions } from "./open-session.ts";
import type { PodReport } from "./pod-report.ts";
import { sendNetwork, type NetworkChanges, type NetworkHello } from "./network-stream.ts";
import { relayProcess, type AgentProcessExit } from "./relay-process.ts";
import { ReportReader } from "./report-reader.ts";
import { agentPort } from "./routes.ts";

/** Options of {@link AgentClient.connect}. */
export interface AgentClientOptions extends PeerOptions {
  /** @default agentPort (6421) */
  readonly port?: number;
  readonly logger: Logger;
  /** Cancels connecting. Does not close an established connection. */
  readonly signal?: AbortSignal;
  /** Time limit for the TCP connection, and again for the TLS handshake, milliseconds. @default 10000 */
  readonly connectTimeoutMs?: number;
  /** Time limit for the head of a response, and again for its body if that is read as a whole, milliseconds. @default 30000 */
  readonly answerTimeoutMs?: number;
}

/** Options of {@link AgentClient.logs}. */
export interface AgentLogOptions {
  readonly follow?: boolean;
  /** Returns the log of the previous run of the container. */
  readonly previous?: boolean;
  readonly timestamps?: boolean;
  /** Number of lines from the end, 0 or more. */
  readonly tailLines?: number;
  /** Only lines that begin within this many bytes before the end of the stored log. Not with `tailLines`. */
  readonly tailBytes?: number;
  /** Milliseconds since the Unix epoch. */
  readonly sinceTimeMs?: number;
  /** Maximum size of the response in bytes, 1 or more. */
  readonly limitBytes?: number;
  /** Whether the log is for kip itself, which clients of the cluster must not delay. @default false */
  readonly isForKip?: boolean;
}

/** Longest command in a path, bytes. HTTP/2 in Node accepts no header above 64 KiB. */
const maxPathBytes = 32 * 1024;

const connectTimeoutMs = 10_000;

/**
 * One HTTP/2 connection to the agent of one cell. Every call makes one attempt. `AGENT_UNREACHABLE` (retryable) means that the
 * connection is lost and a new client is needed.
 *
 * The agent is not trusted: its responses are limited in size and rate, and decoded.
 */
export class AgentClient implements AsyncDisposable {
  /** Resolves when the connection has ended, for any reason. */
  readonly closed: Promise<void>;
  /** When the agent's machine accepted the connection, milliseconds since the Unix epoch. */
  readonly answeredAtMs: number;
  readonly #requests: AgentRequests;
  /** Each settles when an attached client, a command or a followed log has ended. */
  readonly #readers = new Set<Promise<unknown>>();

  private constructor(requests: AgentRequests, answeredAtMs: number) {
    this.#requests = requests;
    this.closed = requests.closed;
    this.answeredAtMs = answeredAtMs;
  }

  /** Whether the connection accepts no more requests. {@link AgentClient.closed} only resolves when its socket has closed. */
  get isClosing(): boolean {
    return this.#requests.isClosing;
  }

  /**
   * Resolves when the clients that now read the pod's output, through exec, attach or a followed log, have read all of it or
   * have disconnected. Undefined if there are none.
   */
  get outputRead(): Promise<unknown> | undefined {
    return this.#readers.size === 0 ? undefined : Promise.allSettled(this.#readers);
  }

  /**
   * Connects, with one attempt.
   *
   * @throws {AgentError} code `AGENT_UNREACHABLE` (retryable) or `AGENT_IDENTITY_INVALID`
   */
  static async connect(options: AgentClientOptions): Promise<AgentClient> {
    const timeoutMs = options.connectTimeoutMs ?? connectTimeoutMs;
    const limits = { timeoutMs, signal: options.signal };
    const socket = await openTcp(options, { port: options.port ?? agentPort, ...limits });
    return await AgentClient.over(socket, options);
  }

  /** Connects to the agent over an accepted TCP connection. @throws like {@link AgentClient.connect} */
  static async over(socket: Socket, options: AgentClientOptions): Promise<AgentClient> {
    const answeredAtMs = systemClock.now();
    const session = await openSession(socket, options, {
      timeoutMs: options.connectTimeoutMs ?? connectTimeoutMs,
      signal: options.signal,
    });
    const { answerTimeoutMs } = options;
    const requests = new AgentRequests(session, { peer: options, socket, answerTimeoutMs });
    return new AgentClient(requests, answeredAtMs);
  }

  /** Facts about the agent and its machine. */
  async info(signal?: AbortSignal): Promise<AgentInfo> {
    return await this.#requests.json("GET", "info", { signal, decoder: decodeAgentInfo });
  }

  /**
   * Sends the pod, or its changed parts, to the cell. Idempotent by UID and generation. Resolves with the generation that the
   * agent has now. If that is higher than the one sent, the agent ignored the call. Agents of earlier versions do not return
   * it.
   *
   * @throws {AgentError} code `AGENT_OTHER_POD` if the cell has another pod
   */
  async putPod(pod: DesiredPod, signal?: AbortSignal): Promise<number | undefined> {
    const answer = await this.#requests.json("PUT", "pod", {
      body: pod,
      signal,
      decoder: decodePodTaken,
    });
    return answer.generation;
  }

  /**
   * Asks the agent to stop the pod within the grace period (whole seconds, 0 or more). A later call may only shorten it. The
   * reports show the progress.
   *
   * @throws {AgentError} code `AGENT_NO_POD` if the cell has no pod
   */
  async deletePod(graceSeconds: number, signal?: AbortSignal): Promise<void> {
    await this.#requests.json("DELETE", `pod?graceSeconds=${limitSeconds(graceSeconds)}`, {
      signal,
    });
  }

  /**
   * Yields the pod's state, now and after each change. While the reader is busy, older reports are skipped in favour of the
   * newest. Ends when the signal aborts.
   *
   * @param containers returns the current number of the pod's containers of all kinds, because a pod with many has longer
   * reports. @default 1000
   * @throws {AgentError} code `AGENT_UNREACHABLE` if the connection is lost
   */
  async *status(
    signal: AbortSignal,
    containers = (): number => 1000,
  ): AsyncGenerator<PodReport, void, void> {
    if (signal.aborted) return;
    try {
      const reader = new ReportReader(containers, signal);
      const onPiece = (bytes: number): void => reader.received(bytes);
      yield* reader.read(await this.#requests.open("GET", "status", { signal, onPiece }));
    } catch (error) {
      if (signal.aborted) return;
      throw this.#requests.lost(error);
    }
    if (!signal.aborted) throw this.#requests.lost("the status stream ended");
  }

  /**
   * The log of a container as plain text. With `follow`, it ends with the container or when the signal aborts. Reading fails if
   * the connection is lost before the end.
   *
   * @throws {AgentError} code `AGENT_BUSY` (retryable) if clients have too many streams to the cell; so do exec, attach and
   * portForward
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
    const kind = options.isForKip === true ? "copy" : "download";
    const stream = await this.#requests.open("GET", path, { signal, kind });
    if (options.follow === true) void this.#addReader(finished(stream, { writable: false }));
    return stream;
  }

  /**
   * Runs a command in a container, and resolves when it has ended. A command that needs more than 32 KiB in the path is sent in
   * frames. An agent that does not support these refuses with `AGENT_REQUEST_INVALID`.
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

  /** Attaches to the main process of a container. Resolves when it has ended. @throws like exec */
  async attach(
    container: string,
    streams: ProcessStreams,
    signal: AbortSignal,
  ): Promise<AgentProcessExit> {
    const path = `attach/${encodeURIComponent(container)}?${streamQuery(streams).toString()}`;
    return await this.#process(path, streams, signal);
  }

  /** Connects to a port of the pod, like a process in the pod would connect to localhost. */
  async portForward(port: number, signal: AbortSignal): Promise<Duplex> {
    return await this.#requests.open("POST", `portforward?port=${port}`, {
      signal,
      kind: "duplex",
    });
  }

  /**
   * Keeps the cell's rules for Services and policies up to date until the signal aborts.
   *
   * @param open returns the changes for a cell with this first message, see `network-view`
   * @throws {AgentError} code `AGENT_NOT_FOUND` if the agent does not support the call, `AGENT_UNREACHABLE`,
   * `AGENT_ANSWER_INVALID`
   */
  async sendNetwork(
    open: (hello: NetworkHello) => NetworkChanges,
    signal: AbortSignal,
  ): Promise<void> {
    if (signal.aborted) return;
    try {
      const stream = await this.#requests.open("POST", "network", { signal, kind: "lines" });
      await sendNetwork(stream, open, signal);
    } catch (error) {
      if (!signal.aborted) throw this.#requests.lost(error);
    }
  }

  /** Resource use of the containers and the agent. */
  async stats(signal?: AbortSignal): Promise<AgentStats> {
    const options = { signal, decoder: decodeAgentStats, maxBytes: maxStatsBytes };
    return await this.#requests.json("GET", "stats", options);
  }

  /** Replaces the agent's certificate. New connections use it. */
  async putIdentity(identity: CellIdentity, signal?: AbortSignal): Promise<void> {
    await this.#requests.json("PUT", "identity", { body: identity, signal });
  }

  /** Closes the connection and all streams on it. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#requests[Symbol.asyncDispose]();
  }

  async #process(
    path: string,
    streams: ProcessStreams,
    signal: AbortSignal,
    command?: readonly string[],
  ): Promise<AgentProcessExit> {
    const stream = await this.#requests.open("POST", path, { signal, kind: "duplex" });
    try {
      return await this.#addReader(relayProcess(stream, streams, command));
    } catch (error) {
      signal.throwIfAborted();
      throw this.#requests.lost(error);
    }
  }

  #addReader<T>(reader: Promise<T>): Promise<T> {
    this.#readers.add(reader);
    const remove = (): void => void this.#readers.delete(reader);
    reader.then(remove, remove);
    return reader;
  }
}

function streamQuery(streams: ProcessStreams): URLSearchParams {
  const query = new URLSearchParams();
  for (const name of ["stdin", "stdout", "stderr"] as const)
    if (streams[name]) query.set(name, "1");
  if (streams.tty) query.set("tty", "1");
  return query;
}
