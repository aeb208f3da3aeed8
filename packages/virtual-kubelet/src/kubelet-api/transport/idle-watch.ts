import { pause, type Clock } from "@kip/base";

/**
 * Interval of probes, milliseconds. While the server reads nothing, only the response to a write shows that the client has
 * disconnected.
 */
const probeIntervalMs = 15_000;

/** A connection to watch for a client that is idle. */
export interface WatchedConnection {
  /** Time without traffic after which the connection is idle, milliseconds. */
  readonly idleTimeoutMs: number;
  readonly clock: Clock;
  /** Ends the watch. */
  readonly ended: AbortSignal;
  /** Time of the last frame from the client or data for it, on the clock's monotonic scale. */
  lastTrafficAt(): number;
  /** Called at most every 15 seconds. Sends something if the server is not reading. */
  probe(): void;
  /** Called once, when there was no traffic for too long. */
  onIdle(): void;
}

/** Watches a connection until it has ended or is idle. Never rejects. */
export async function watchIdle(connection: WatchedConnection): Promise<void> {
  const { clock, ended, idleTimeoutMs } = connection;
  while (!ended.aborted) {
    const idleLeft = idleTimeoutMs - (clock.monotonic() - connection.lastTrafficAt());
    if (idleLeft <= 0) return connection.onIdle();
    if (await pause(Math.min(idleLeft, probeIntervalMs), clock, ended)) connection.probe();
  }
}
