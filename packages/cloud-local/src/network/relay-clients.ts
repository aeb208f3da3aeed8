/** Clients at one time, of all relays together: each TCP connection takes two descriptors of this process, each UDP client one. */
const mostOfAll = 4096;

/**
 * Counts the clients of all relays. There may be a relay for each NodePort, and a network that reaches one decides how many clients it has.
 * TCP connections above the limit are refused, and of UDP clients the one that was silent for longest is forgotten.
 */
export class RelayClients {
  readonly #most: number;
  #connections = 0;
  /** What forgets each UDP client, the one that was silent for longest first. */
  readonly #flows = new Map<object, () => void>();

  /** @param most TCP connections, and UDP clients */
  constructor(most: number = mostOfAll) {
    this.#most = most;
  }

  /** Whether there is room for one more TCP connection, which is counted until it is {@link RelayClients.leave left}. */
  enter(): boolean {
    if (this.#connections >= this.#most) return false;
    this.#connections++;
    return true;
  }

  /** A TCP connection that had room has ended. */
  leave(): void {
    this.#connections--;
  }

  /** A UDP client has sent something. @param forget called if it has to make room */
  use(flow: object, forget: () => void): void {
    this.#flows.delete(flow);
    this.#flows.set(flow, forget);
    const [[oldest, forgetOldest] = []] = this.#flows;
    if (this.#flows.size <= this.#most || oldest === undefined) return;
    this.#flows.delete(oldest);
    forgetOldest?.();
  }

  /** A UDP client is forgotten. */
  end(flow: object): void {
    this.#flows.delete(flow);
  }
}
