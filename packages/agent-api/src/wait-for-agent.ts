import net, { type Socket } from "node:net";
import { isRetryable, pause, systemClock, type Clock } from "@kip/base";
import { AgentClient, type AgentClientOptions } from "./agent-client.ts";
import { agentPort } from "./routes.ts";

/** Options of {@link waitForAgent}. */
export type WaitForAgentOptions = AgentClientOptions & {
  /** Cancels the wait. */
  readonly signal: AbortSignal;
  /** Called when the agent's port accepts a connection, before TLS. May be called several times if attempts fail. */
  readonly onAccepted?: (() => void) | undefined;
  /** @default systemClock */
  readonly clock?: Clock | undefined;
};

/** Pause after a refused attempt, milliseconds. The machine is up, but its agent is not. */
const pauseMs = 50;
/** Time without a response after which another attempt starts, milliseconds. The kernel alone would repeat a SYN after 1 s. */
const silenceMs = 250;
/** How long an attempt may stay open beside later ones, milliseconds, for distant cells. */
const attemptMs = 3000;

/**
 * Connects repeatedly until the agent of a booting cell responds.
 *
 * This polls, because nothing announces that the agent will listen. A machine does not respond until it has booted, and then
 * refuses connections. Each attempt costs one packet. When the machine's network comes up, the pending attempt succeeds at
 * once.
 *
 * @throws the signal's reason when it aborts
 * @throws {AgentError} code `AGENT_IDENTITY_INVALID` if the peer is not the cell
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
 * Connects repeatedly until the agent's port of a booting cell accepts a connection. That shows that the cell is running, but
 * not who accepted.
 *
 * @throws the signal's reason when it aborts
 */
export async function waitForAgentPort(
  options: Pick<WaitForAgentOptions, "address" | "port" | "signal">,
): Promise<void> {
  (await dial(options, systemClock)).destroy();
}

/** Returns the first TCP connection that is accepted. */
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
      // If it is refused or unreachable, the next attempt follows.
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
