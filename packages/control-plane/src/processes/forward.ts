import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";
import { pipeline } from "node:stream";

/** Addresses and limits of a forwarder. */
export interface ForwardOptions {
  readonly from: { readonly address: string; readonly port: number };
  /** Address and port, or the path of a Unix socket. */
  readonly to: { readonly address: string; readonly port: number } | { readonly path: string };
  /** Most open connections. Further ones are reset. @default 2048 */
  readonly maxConnections?: number;
  /** Most open connections per source address. Further ones are reset. @default 64 */
  readonly maxPerAddress?: number;
  /** How long a half-closed connection may stay silent, milliseconds. @default 60,000 */
  readonly halfClosedIdleMs?: number;
}

/** Time until the first probe of a silent connection, milliseconds. Ten unanswered probes, one second apart, end it. */
const keepAliveMs = 60_000;

/**
 * Forwards TCP connections, byte for byte, until it is disposed.
 *
 * Silent connections stay open, because watches may be silent for hours. TCP keepalive detects whether the peer still exists,
 * and the number of connections is limited.
 *
 * @throws the system's error if the address cannot be listened on, for example `EADDRINUSE`
 */
export async function forwardConnections(options: ForwardOptions): Promise<AsyncDisposable> {
  const { maxConnections = 2048, maxPerAddress = 64, halfClosedIdleMs = 60_000 } = options;
  const open = new Set<Socket>();
  const perAddress = new Map<string, number>();
  const server = createServer({ allowHalfOpen: true }, (incoming) => {
    const address = incoming.remoteAddress ?? "";
    const count = perAddress.get(address) ?? 0;
    if (count >= maxPerAddress) {
      incoming.resetAndDestroy();
      return;
    }
    perAddress.set(address, count + 1);
    const outgoing = connect({ ...target(options.to), allowHalfOpen: true });
    for (const socket of [incoming, outgoing]) {
      open.add(socket);
      socket.setNoDelay(true).setKeepAlive(true, keepAliveMs);
      socket.once("close", () => open.delete(socket));
      // The kernel would keep a half-closed connection for as long as the peer likes.
      socket.once("end", () => socket.setTimeout(halfClosedIdleMs, () => socket.destroy()));
    }
    incoming.once("close", () => forget(perAddress, address));
    // A failing pipeline destroys both its ends. Nothing else is needed.
    pipeline(incoming, outgoing, () => {});
    pipeline(outgoing, incoming, () => {});
  });
  server.maxConnections = maxConnections;
  server.listen(options.from.port, options.from.address);
  await once(server, "listening");
  // For example too many open files. That connection is lost, but later ones work.
  server.on("error", () => {});
  return { [Symbol.asyncDispose]: async () => await close(server, open) };
}

function target(to: ForwardOptions["to"]): { host: string; port: number } | { path: string } {
  return "path" in to ? { path: to.path } : { host: to.address, port: to.port };
}

function forget(perAddress: Map<string, number>, address: string): void {
  const left = (perAddress.get(address) ?? 1) - 1;
  if (left > 0) perAddress.set(address, left);
  else perAddress.delete(address);
}

async function close(server: Server, open: ReadonlySet<Socket>): Promise<void> {
  server.close();
  for (const socket of open) socket.destroy();
  await once(server, "close");
}
