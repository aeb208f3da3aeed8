import type { Socket } from "node:net";

/** Maximum number of connections from one address that are not known to be kip's. */
const maxPerAddress = 16;

/** Their maximum total number. */
export const maxUnidentified = 256;

/**
 * Connections that are not known to be kip's: those that have not shown a certificate, and those of other cells. Anyone who can
 * reach the agent may open them. If there are too many, the oldest one is closed. Refusing new ones would keep kip out.
 */
export class UnidentifiedConnections {
  /** By remote address and port, the oldest first. */
  readonly #sockets = new Map<string, Socket>();

  /** Adds a new connection. */
  add(socket: Socket): void {
    const key = keyOf(socket);
    this.#sockets.set(key, socket);
    socket.once("close", () => {
      if (this.#sockets.get(key) === socket) this.#sockets.delete(key);
    });
    const ofAddress = [...this.#sockets.values()].filter(
      ({ remoteAddress }) => remoteAddress === socket.remoteAddress,
    );
    if (ofAddress.length > maxPerAddress) ofAddress[0]?.destroy();
    else if (this.#sockets.size > maxUnidentified) this.#sockets.values().next().value?.destroy();
  }

  /** Removes a connection, because it is kip's. */
  release(socket: Pick<Socket, "remoteAddress" | "remotePort">): void {
    this.#sockets.delete(keyOf(socket));
  }
}

function keyOf({ remoteAddress, remotePort }: Pick<Socket, "remoteAddress" | "remotePort">) {
  return `${remoteAddress} ${remotePort}`;
}
