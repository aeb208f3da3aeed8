import { once } from "node:events";
import type { Server } from "node:net";
import { portOf } from "@kip/base";

/** A port at which this process listens. */
export interface Relay extends AsyncDisposable {
  readonly port: number;
}

/** One whose clients have connections. */
export interface ConnectionRelay extends Relay {
  /** Closes the port: connections that are open stay until they end by themselves, or the relay is disposed of. @returns when none is left */
  drain(): Promise<void>;
}

/**
 * Listens at a TCP port, until it is disposed of.
 *
 * @param options.endConnections ends those that are open then
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
  server.on("error", () => {}); // a connection that could not be accepted
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
