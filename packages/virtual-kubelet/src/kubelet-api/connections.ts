import type { Socket } from "node:net";

/**
 * The TCP connections of a server, at most so many. When there is no room for a new one, the oldest
 * makes room whose client has not shown yet that it may come in: so strangers cannot keep others
 * out by holding connections open. If all are known, the new one is closed.
 */
export class Connections {
  readonly #limit: number;
  readonly #all = new Set<Socket>();
  /** By their addresses, which a socket and the TLS socket around it share; the oldest first. */
  readonly #strangers = new Map<string, Socket>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Takes a new connection in, or closes it. */
  add(socket: Socket): void {
    if (this.#all.size >= this.#limit) {
      const oldest = this.#strangers.values().next();
      if (oldest.done === true) {
        socket.destroy();
        return;
      }
      this.#forget(oldest.value);
      oldest.value.destroy();
    }
    this.#all.add(socket);
    this.#strangers.set(addresses(socket), socket);
    const key = addresses(socket); // gone once the socket is closed
    socket.once("close", () => {
      this.#all.delete(socket);
      if (this.#strangers.get(key) === socket) this.#strangers.delete(key);
    });
  }

  /** The client of this connection is known from now on. */
  admit(socket: Socket): void {
    this.#strangers.delete(addresses(socket));
  }

  closeAll(): void {
    for (const socket of this.#all) socket.destroy();
  }

  #forget(socket: Socket): void {
    this.#all.delete(socket);
    this.#strangers.delete(addresses(socket));
  }
}

function addresses({ remoteAddress, remotePort, localAddress, localPort }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;
}
