import type { ClientHttp2Session, ClientHttp2Stream } from "node:http2";
import { AgentError } from "./errors.ts";

/** Window of a stream, bytes: large, so that distant cells are not slow. */
export const maxWindowBytes = 1024 * 1024;
/** Window of a stream while very many are open, bytes. */
const minWindowBytes = 64 * 1024;
/** Windows of all streams together, bytes, while no stream has less than the minimum. */
const allWindowsBytes = 64 * maxWindowBytes;
/**
 * How long a peer may take to confirm a window, milliseconds. A peer that confirmed a large one and no smaller one after it could
 * fill the large one on each stream. Longer than a peer may leave pings unanswered, see `keepAlive`.
 */
const confirmMs = 30_000;
/** Limit for all responses of one connection, bytes. Node grants it again when data arrives, read or not. */
const sessionWindowBytes = 8 * maxWindowBytes;

/** A connection with such streams. */
interface Use {
  streams: number;
  windowBytes: number;
  /** Timer of the window that the peer has not confirmed yet. Node accepts only a few unconfirmed changes. */
  pending: NodeJS.Timeout | undefined;
}

/**
 * Windows of the streams for clients of the cluster, on all connections of this process. A stream whose client does not read
 * keeps a whole window in memory. So the windows become smaller while many streams are open.
 */
export class BulkWindows {
  readonly #sessions = new Map<ClientHttp2Session, Use>();
  readonly #confirmMs: number;
  #streams = 0;
  #windowBytes = maxWindowBytes;

  /** @param confirmWithinMs how long a peer may take to confirm a window, milliseconds */
  constructor(confirmWithinMs = confirmMs) {
    this.#confirmMs = confirmWithinMs;
  }

  /** Counts a new stream until it is closed, and sets the windows of its connection. */
  add(session: ClientHttp2Session, stream: ClientHttp2Stream): void {
    const use = this.#sessions.get(session) ?? this.#begin(session);
    use.streams += 1;
    this.#count(1);
    this.#apply(session, use);
    stream.once("close", () => {
      use.streams -= 1;
      this.#count(-1);
    });
  }

  #begin(session: ClientHttp2Session): Use {
    const use: Use = { streams: 0, windowBytes: 0, pending: undefined };
    this.#sessions.set(session, use);
    session.once("close", () => this.#sessions.delete(session));
    session.setLocalWindowSize(sessionWindowBytes);
    return use;
  }

  #count(change: 1 | -1): void {
    this.#streams += change;
    const before = this.#windowBytes;
    while (this.#windowBytes > minWindowBytes && this.#all() > allWindowsBytes)
      this.#windowBytes /= 2;
    // Otherwise a stream that comes and goes at the limit would change all windows each time.
    while (this.#windowBytes < maxWindowBytes && this.#all() * 4 <= allWindowsBytes)
      this.#windowBytes *= 2;
    if (this.#windowBytes === before) return;
    for (const [session, use] of this.#sessions) if (use.streams > 0) this.#apply(session, use);
  }

  #all(): number {
    return this.#windowBytes * this.#streams;
  }

  #apply(session: ClientHttp2Session, use: Use): void {
    if (use.pending || use.windowBytes === this.#windowBytes) return;
    if (session.closed || session.destroyed) return;
    use.windowBytes = this.#windowBytes;
    const timer = this.#endUnlessConfirmed(session, use);
    use.pending = timer;
    session.settings({ initialWindowSize: use.windowBytes }, () => {
      clearTimeout(timer);
      use.pending = undefined;
      this.#apply(session, use);
    });
  }

  /** Ends a connection whose peer does not confirm a window in time. */
  #endUnlessConfirmed(session: ClientHttp2Session, use: Use): NodeJS.Timeout {
    const judge = (): void => {
      // By now another window may wait for its confirmation.
      if (use.pending !== timer || session.destroyed) return;
      const reason = `it does not confirm a setting within ${this.#confirmMs} ms`;
      session.destroy(
        new AgentError("AGENT_ANSWER_INVALID", `Cannot read the answers of a cell: ${reason}`),
      );
    };
    // If this process was blocked, the confirmation may be waiting to be read. An immediate runs after that.
    const timer = setTimeout(() => setImmediate(judge), this.#confirmMs).unref();
    return timer;
  }
}
