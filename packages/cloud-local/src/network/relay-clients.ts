/** Most concurrent connections of a TCP port, and most concurrent clients of a UDP port. */
export const maxClients = 512;

/**
 * Most concurrent clients of all relays together. Each TCP connection takes two file descriptors of this process, and each UDP
 * client one.
 */
const maxTotal = 4096;

/** A TCP connection that was admitted. */
export interface RelayConnection {
  /** Call this when one end sends no more. The connection is then closed before others if a slot is needed. */
  halfClose(): void;
  /** Call this when the connection has ended. May be repeated. */
  leave(): void;
}

/** A port's TCP connections in order of arrival, and its half-closed ones in the order of that. */
interface PortConnections {
  readonly open: Set<Evictable>;
  readonly halfClosed: Set<Evictable>;
}

interface Evictable {
  readonly evict: () => void;
  /** Whether its relay is still listening. */
  readonly isServed: () => boolean;
}

/**
 * Limits the clients of all relays. There may be a relay for each NodePort, and other computers decide how many clients there
 * are. A port's limit for TCP connections counts those of all its relays, because a closed relay may still have some while the
 * next one listens. At this limit, a new connection ends one of a closed relay, or is refused if there is none. At the limit of
 * all ports, a new connection ends one of the port with the most connections, if its own port would still have fewer, and is
 * refused otherwise. For UDP, the client that was silent for longest is forgotten.
 */
export class RelayClients {
  readonly #most: number;
  readonly #maxPerPort: number;
  /** By port. Only ports with connections. */
  readonly #ports = new Map<string, PortConnections>();
  #connections = 0;
  /** Forgets each UDP client. The one that was silent for longest is first. */
  readonly #flows = new Map<object, () => void>();

  /**
   * @param most limit for TCP connections and UDP clients
   * @param maxPerPort limit for TCP connections of one port
   */
  constructor(most: number = maxTotal, maxPerPort: number = maxClients) {
    this.#most = most;
    this.#maxPerPort = maxPerPort;
  }

  /**
   * Admits another TCP connection, or returns undefined.
   *
   * @param port its address and port
   * @param evict closes the connection if its slot is needed. Of the port's connections, half-closed ones come first, and then
   * the oldest
   * @param isServed whether the connection's relay is still listening
   */
  enter(
    port: string,
    evict: () => void,
    isServed: () => boolean = () => true,
  ): RelayConnection | undefined {
    const known = this.#ports.get(port);
    if (known && sizeOf(known) >= this.#maxPerPort && !endUnserved(known)) return undefined;
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

  /** Closes a connection of a port with more than `than` connections. @returns whether there was one */
  #makeRoom(than: number): boolean {
    let largest: PortConnections | undefined;
    for (const each of this.#ports.values())
      if (sizeOf(each) > (largest ? sizeOf(largest) : than)) largest = each;
    if (!largest) return false;
    const [connection] = [...largest.halfClosed.values().take(1), ...largest.open.values().take(1)];
    connection?.evict();
    return true;
  }

  /** Call this when a UDP client has sent something. @param forget called if its slot is needed */
  use(flow: object, forget: () => void): void {
    this.#flows.delete(flow);
    this.#flows.set(flow, forget);
    const [[oldest, forgetOldest] = []] = this.#flows;
    if (this.#flows.size <= this.#most || oldest === undefined) return;
    this.#flows.delete(oldest);
    forgetOldest?.();
  }

  /** Call this when a UDP client is forgotten. */
  end(flow: object): void {
    this.#flows.delete(flow);
  }
}

/** Ends a connection of a relay that no longer listens. @returns whether there was one */
function endUnserved({ open, halfClosed }: PortConnections): boolean {
  const unserved = [...halfClosed, ...open].find(({ isServed }) => !isServed());
  unserved?.evict();
  return unserved !== undefined;
}

function sizeOf({ open, halfClosed }: PortConnections): number {
  return open.size + halfClosed.size;
}
