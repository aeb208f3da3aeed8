import type { CellIdentity } from "@kip/agent-api";
import { KipError, type Clock, type Logger } from "@kip/base";

/** Options of {@link startAgent}. */
export interface AgentOptions {
  /** Whom the agent is; a newer identity that kip has put since then (in `runDir`) wins. */
  readonly identity: CellIdentity;
  /** Version that `GET /v1/info` shows. */
  readonly agentVersion: string;
  /** Directory on disk for images, root file systems, logs and emptyDirs: `/var/lib/itzo`. */
  readonly stateDir: string;
  /** Directory on a tmpfs for the desired pod, secrets and runtime state: `/run/itzo`. */
  readonly runDir: string;
  /** TCP port; 0 takes a free one. @default agentPort (6421) */
  readonly port?: number;
  /** Address to listen on. @default all */
  readonly host?: string;
  /** Milliseconds from the kernel's start to `userspace` and `network`; the agent adds `listening`. */
  readonly bootTimingsMs?: Readonly<Record<string, number>>;
  readonly logger: Logger;
  /** @default systemClock */
  readonly clock?: Clock;
}

/** An agent that listens. */
export interface RunningAgent extends AsyncDisposable {
  /** The port it listens on. */
  readonly port: number;
  /** Stops listening and lets go of the containers, which go on running. */
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Starts the agent: resolves as soon as it listens; takes over containers that an agent before it left.
 *
 * @throws {KipError} code `AGENT_LISTEN_FAILED` when the port cannot be opened
 */
export function startAgent(options: AgentOptions): Promise<RunningAgent> {
  throw new KipError("AGENT_LISTEN_FAILED", `Cannot listen on port ${options.port}: not built yet`);
}
