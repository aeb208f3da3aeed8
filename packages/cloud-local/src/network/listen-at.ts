import { once } from "node:events";
import type { Server } from "node:net";
import { portOf } from "@kip/base";

/** A port on which this process listens. */
export interface Relay extends AsyncDisposable {
  readonly port: number;
}

/** A relay for clients with connections. */
export interface ConnectionRelay extends Relay {
  /**
   * Closes the port. Open connections stay until they end by themselves or the relay is disposed of. @returns when none is left
   */
  drain(): Promise<void>;
}

/**
 * Listens on a TCP port until it is disposed of.
 *
 * @param options.endConnections ends the open connections at that point
 * @throws the error of listening
 */
export async function listenAt(
  server: Server,
  options: {
    readonly address: string;
    readonly port: number;
    readonly endConnections: () => void;
  },
): Promise<ConnectionRelay> {
  const { address: host, port, endConnections } = options;
  server.listen({ host, port });
  await once(server, "listening");
  server.on("error", () => {}); // a connection could not be accepted
  let closed: Promise<unknown> | undefined;
  const close = async (): Promise<void> => {
    if (!closed) {
      closed = once(server, "close");
      server.close();
    }
    await closed;
  };
  return {
    port: portOf(server),
    drain: close,
    [Symbol.asyncDispose]: async () => {
      const ended = close();
      endConnections();
      await ended;
    },
  };
}
