import type { Socket } from "node:net";

/**
 * Limits the TCP connections of a server. At the limit, a new connection replaces the oldest one whose client has not
 * been authenticated yet, so that clients without access cannot keep others out by holding connections open. If all
 * clients are authenticated, the new connection is closed.
 */
export class Connections {
  readonly #limit: number;
  readonly #all = new Set<Socket>();
  /** By client address and port, which a socket and its TLS socket share, the oldest first. */
  readonly #notAdmitted = new Map<string, Socket>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Accepts a new connection or closes it. */
  add(socket: Socket): void {
    if (this.#all.size >= this.#limit) {
      const oldest = this.#notAdmitted.values().next();
      if (oldest.done === true) {
        socket.destroy();
        return;
      }
      this.#forget(oldest.value);
      oldest.value.destroy();
    }
    this.#all.add(socket);
    this.#notAdmitted.set(addresses(socket), socket);
    const key = addresses(socket); // no longer available once the socket is closed
    socket.once("close", () => {
      this.#all.delete(socket);
      if (this.#notAdmitted.get(key) === socket) this.#notAdmitted.delete(key);
    });
  }

  /** Call this once the client of the connection is authenticated. */
  admit(socket: Socket): void {
    this.#notAdmitted.delete(addresses(socket));
  }

  closeAll(): void {
    for (const socket of this.#all) socket.destroy();
  }

  #forget(socket: Socket): void {
    this.#all.delete(socket);
    this.#notAdmitted.delete(addresses(socket));
  }
}

function addresses({ remoteAddress, remotePort, localAddress, localPort }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;
}
