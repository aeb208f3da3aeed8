import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { pipeline } from "node:stream";

/** Where connections are taken and where they are passed on to. */
export interface ForwardOptions {
  readonly from: { readonly address: string; readonly port: number };
  readonly to: { readonly address: string; readonly port: number };
}

/** Passes TCP connections on, byte for byte, until it is disposed of. */
export async function forwardConnections(options: ForwardOptions): Promise<AsyncDisposable> {
  const open = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (incoming) => {
    const outgoing = connect({
      host: options.to.address,
      port: options.to.port,
      allowHalfOpen: true,
    });
    for (const socket of [incoming, outgoing]) {
      open.add(socket);
      socket.setNoDelay(true).once("close", () => open.delete(socket));
    }
    // A pipeline that fails destroys both its ends, which is all that a broken connection needs.
    pipeline(incoming, outgoing, () => {});
    pipeline(outgoing, incoming, () => {});
  });
  server.listen(options.from.port, options.from.address);
  await once(server, "listening");
  return {
    async [Symbol.asyncDispose]() {
      server.close();
      for (const socket of open) socket.destroy();
      await once(server, "close");
    },
  };
}
