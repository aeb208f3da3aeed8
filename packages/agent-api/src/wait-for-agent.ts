import net, { type Socket } from "node:net";
import { isRetryable, pause, systemClock, type Clock } from "@kip/base";
import { AgentClient, type AgentClientOptions } from "./agent-client.ts";
import { agentPort } from "./routes.ts";

/** Options of {@link waitForAgent}. */
export type WaitForAgentOptions = AgentClientOptions & {
  /** Gives up waiting. */
  readonly signal: AbortSignal;
  /** Called when the agent's port accepts a connection, before TLS. May be called again after a failure. */
  readonly onAccepted?: (() => void) | undefined;
  /** @default systemClock */
  readonly clock?: Clock | undefined;
};

/** Pause after a refused attempt: the machine is there, its agent is not yet. */
const pauseMs = 50;
/** Silence after which one more attempt is made; the kernel alone would repeat a SYN after 1 s. */
const silenceMs = 250;
/** How long an attempt may stay open beside later ones, for cells that are far away. */
const attemptMs = 3000;

/**
 * Dials until the agent of a booting cell answers.
 *
 * This polls, because nothing announces an agent that does not listen yet: a machine that has not
 * booted is silent, one that has refuses. Both cost no more than a packet. When the network of the
 * machine comes up, the attempt that waits goes through at once.
 *
 * @throws the signal's reason when it aborts
 * @throws {AgentError} code `AGENT_IDENTITY_INVALID` when something else than the cell answers
 */
export async function waitForAgent(options: WaitForAgentOptions): Promise<AgentClient> {
  const clock = options.clock ?? systemClock;
  for (;;) {
    const socket = await dial(options, clock);
    options.onAccepted?.();
    try {
      return await AgentClient.over(socket, options);
    } catch (error) {
      options.signal.throwIfAborted();
      if (!isRetryable(error)) throw error;
      options.logger.debug("Dialled again", { cell: options.cellName, err: error });
      await clock.sleep(pauseMs, options.signal);
    }
  }
}

/**
 * Dials until the agent's port of a booting cell accepts a connection, which shows that the cell runs, and nothing of who answers.
 *
 * @throws the signal's reason when it aborts
 */
export async function waitForAgentPort(
  options: Pick<WaitForAgentOptions, "address" | "port" | "signal">,
): Promise<void> {
  (await dial(options, systemClock)).destroy();
}

/** The first TCP connection that is accepted. */
async function dial(
  options: Pick<WaitForAgentOptions, "address" | "port" | "signal">,
  clock: Clock,
): Promise<Socket> {
  const attempts = new Set<Socket>();
  const won = new AbortController();
  const accepted: Socket[] = [];
  try {
    for (;;) {
      const closed = new AbortController();
      const socket = net.connect({
        host: options.address,
        port: options.port ?? agentPort,
        noDelay: true,
      });
      attempts.add(socket);
      socket.setTimeout(attemptMs, () => socket.destroy());
      socket.on("connect", () => {
        accepted.push(socket);
        won.abort();
      });
      // Refused, unreachable: the next attempt is the answer to it.
      socket.on("error", () => {});
      socket.on("close", () => {
        attempts.delete(socket);
        closed.abort();
      });
      const enough = AbortSignal.any([options.signal, won.signal, closed.signal]);
      await pause(silenceMs, clock, enough);
      options.signal.throwIfAborted();
      const [winner] = accepted;
      if (winner) return winner.setTimeout(0);
      if (closed.signal.aborted) await clock.sleep(pauseMs, options.signal);
    }
  } finally {
    for (const socket of attempts) if (socket !== accepted[0]) socket.destroy();
  }
}
