import type { Duplex, Readable } from "node:stream";
import { KipError, type Logger, type ProcessStreams } from "@kip/base";
import type { AgentInfo, AgentStats, CellIdentity } from "./agent-info.ts";
import type { DesiredPod } from "./desired-pod.ts";
import type { PodReport } from "./pod-report.ts";

/** Options of {@link AgentClient.connect}. */
export interface AgentClientOptions {
  /** Management address of the cell. */
  readonly address: string;
  /** @default agentPort (6421) */
  readonly port?: number;
  /** Name of the cell; the agent's certificate must carry exactly this name. */
  readonly cellName: string;
  /** PEM: the CA that signed the agent's certificate. */
  readonly ca: string;
  /** PEM: kip's client certificate and key. */
  readonly certificate: string;
  readonly key: string;
  readonly logger: Logger;
  /** Gives up connecting. Does not close an established connection. */
  readonly signal?: AbortSignal;
  /** Limit for TCP connect and for the TLS handshake, each, milliseconds. @default 10000 */
  readonly connectTimeoutMs?: number;
}

/** Options of {@link AgentClient.logs}. */
export interface AgentLogOptions {
  readonly follow?: boolean;
  /** The log of the run before the present one. */
  readonly previous?: boolean;
  readonly timestamps?: boolean;
  /** Lines from the end, 0 or more. */
  readonly tailLines?: number;
  /** Milliseconds since the epoch. */
  readonly sinceTimeMs?: number;
  /** Largest answer in bytes, 1 or more. */
  readonly limitBytes?: number;
}

/** How a process that was executed or attached to ended. */
export interface AgentProcessExit {
  readonly exitCode: number;
}

/**
 * One HTTP/2 connection to the agent of one cell. Every call is one attempt; `AGENT_UNREACHABLE`
 * (retryable) says that the connection is gone and a new client is needed.
 */
export declare class AgentClient implements AsyncDisposable {
  static connect(options: AgentClientOptions): Promise<AgentClient>;
  /** Resolves when the connection is gone, for whatever reason. */
  readonly closed: Promise<void>;
  info(signal?: AbortSignal): Promise<AgentInfo>;
  putPod(pod: DesiredPod, signal?: AbortSignal): Promise<void>;
  deletePod(graceSeconds: number, signal?: AbortSignal): Promise<void>;
  status(signal: AbortSignal): AsyncIterable<PodReport>;
  logs(container: string, options: AgentLogOptions, signal: AbortSignal): Promise<Readable>;
  exec(
    container: string,
    command: readonly string[],
    streams: ProcessStreams,
    signal: AbortSignal,
  ): Promise<AgentProcessExit>;
  attach(
    container: string,
    streams: ProcessStreams,
    signal: AbortSignal,
  ): Promise<AgentProcessExit>;
  portForward(port: number, signal: AbortSignal): Promise<Duplex>;
  stats(signal?: AbortSignal): Promise<AgentStats>;
  putIdentity(identity: CellIdentity, signal?: AbortSignal): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** Options of {@link waitForAgent}. */
export type WaitForAgentOptions = AgentClientOptions & {
  /** Gives up waiting. */
  readonly signal: AbortSignal;
};

/** Dials until the agent of a booting cell answers. @throws the signal's reason */
export function waitForAgent(options: WaitForAgentOptions): Promise<AgentClient> {
  throw new KipError("AGENT_UNREACHABLE", `Cannot reach cell "${options.cellName}": not built yet`);
}
