import { pause, type Clock } from "@kip/base";

/** While nothing is read, only an answer to something written shows that the client left. */
const probeIntervalMs = 15_000;

/** A connection that is watched for a client that is silent. */
export interface WatchedConnection {
  /** Milliseconds without any sign of life after which the connection is idle. */
  readonly idleTimeoutMs: number;
  readonly clock: Clock;
  /** Ends the watch. */
  readonly ended: AbortSignal;
  /** Time of the client's last sign of life, on the clock's monotonic scale. */
  lastSignAt(): number;
  /** Called every 15 seconds at most: sends something if nothing is being read. */
  probe(): void;
  /** Called once, when the client was silent for too long. */
  onIdle(): void;
}

/** Watches a connection until it has ended or is idle. Never rejects. */
export async function watchIdle(connection: WatchedConnection): Promise<void> {
  const { clock, ended, idleTimeoutMs } = connection;
  while (!ended.aborted) {
    const idleLeft = idleTimeoutMs - (clock.monotonic() - connection.lastSignAt());
    if (idleLeft <= 0) return connection.onIdle();
    if (await pause(Math.min(idleLeft, probeIntervalMs), clock, ended)) connection.probe();
  }
}
