/** Most connections of a TCP port at one time, and most clients of a UDP port that answers go back to. */
export const mostClients = 512;

/** Clients at one time, of all relays together: each TCP connection takes two descriptors of this process, each UDP client one. */
const mostOfAll = 4096;

/** A TCP connection that has room. */
export interface RelayConnection {
  /** One of its ends sends nothing more: it has to make room before others. */
  halfClose(): void;
  /** It has ended. May be called again. */
  leave(): void;
}

/** The TCP connections of a port, in the order in which they came, and in which they were half closed. */
interface PortConnections {
  readonly open: Set<Evictable>;
  readonly halfClosed: Set<Evictable>;
}

interface Evictable {
  readonly evict: () => void;
  /** Whether its relay still listens. */
  readonly isServed: () => boolean;
}

/**
 * Counts the clients of all relays. There may be a relay for each NodePort, and a network that reaches one decides how many clients it has.
 * A port takes so many TCP connections, whichever of its relays has them: one that is closed may have some left, while the next one listens.
 * At this limit those of closed relays make room.
 * Above the limit of all ports, a TCP connection to a port that would still have fewer of them than another one makes the port with the most end one
 * of its own; others are refused. Of UDP clients the one that was silent for longest is forgotten.
 */
export class RelayClients {
  readonly #most: number;
  readonly #mostOfPort: number;
  /** By port; only those with connections. */
  readonly #ports = new Map<string, PortConnections>();
  #connections = 0;
  /** What forgets each UDP client, the one that was silent for longest first. */
  readonly #flows = new Map<object, () => void>();

  /**
   * @param most TCP connections, and UDP clients
   * @param mostOfPort TCP connections of one port
   */
  constructor(most: number = mostOfAll, mostOfPort: number = mostClients) {
    this.#most = most;
    this.#mostOfPort = mostOfPort;
  }

  /**
   * Has room for one more TCP connection, or gives undefined.
   *
   * @param port address and port that it came to
   * @param evict ends the connection if it has to make room: of its port, those that are half closed come first, and then the oldest
   * @param isServed whether the relay that has it still listens
   */
  enter(
    port: string,
    evict: () => void,
    isServed: () => boolean = () => true,
  ): RelayConnection | undefined {
    const known = this.#ports.get(port);
    if (known && sizeOf(known) >= this.#mostOfPort && !endUnserved(known)) return undefined;
    const connections = this.#ports.get(port) ?? { open: new Set(), halfClosed: new Set() };
    if (this.#connections >= this.#most && !this.#makeRoom(sizeOf(connections) + 1))
      return undefined;
    const { open, halfClosed } = connections;
    const connection = { evict: () => leave(evict), isServed };
    const leave = (andThen?: () => void): void => {
      if (!open.delete(connection) && !halfClosed.delete(connection)) return;
      this.#connections--;
      if (sizeOf(connections) === 0) this.#ports.delete(port);
      andThen?.();
    };
    this.#ports.set(port, connections);
    this.#connections++;
    open.add(connection);
    return {
      halfClose: () => void (open.delete(connection) && halfClosed.add(connection)),
      leave: () => leave(),
    };
  }

  /** Whether a port has more connections than so many, and has given one up. */
  #makeRoom(than: number): boolean {
    let largest: PortConnections | undefined;
    for (const each of this.#ports.values())
      if (sizeOf(each) > (largest ? sizeOf(largest) : than)) largest = each;
    if (!largest) return false;
    const [connection] = [...largest.halfClosed.values().take(1), ...largest.open.values().take(1)];
    connection?.evict();
    return true;
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

/** Ends a connection of a relay that no longer listens. @returns whether there is one */
function endUnserved({ open, halfClosed }: PortConnections): boolean {
  const unserved = [...halfClosed, ...open].find(({ isServed }) => !isServed());
  unserved?.evict();
  return unserved !== undefined;
}

function sizeOf({ open, halfClosed }: PortConnections): number {
  return open.size + halfClosed.size;
}
