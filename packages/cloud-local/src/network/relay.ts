import { createSocket, type RemoteInfo, type Socket as UdpSocket } from "node:dgram";
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { pipeline } from "node:stream";
import { listenAt, type ConnectionRelay, type Relay } from "./listen-at.ts";
import type { OwnAddresses } from "./own-addresses.ts";
import { mostClients, type RelayClients, type RelayConnection } from "./relay-clients.ts";

/** What is passed on, and where. */
export interface RelayOptions {
  /** Where this process listens. */
  readonly address: string;
  /** The same there and at the target; 0 is for tests. */
  readonly port: number;
  readonly target: string;
  /** Where that of other computers is passed on, which are not the node, and who is none. @default target */
  readonly others?: { readonly target: string; readonly own: OwnAddresses } | undefined;
  /** @default port */
  readonly targetPort?: number | undefined;
  /** Of this relay and others. */
  readonly clients: RelayClients;
  /** For how long a TCP connection of which one end sends no more may pass nothing on, milliseconds. @default one hour */
  readonly halfClosedMs?: number | undefined;
}

/** After how long without a packet a peer is asked whether it is still there, milliseconds. */
const keepAliveMs = 15_000;

/** As kube-proxy has Linux keep a connection that it translates when one end has closed. */
const defaultHalfClosedMs = 3_600_000;

/** Listens on a TCP port and passes each connection on, both ways. @throws the error of listening */
export async function openTcpRelay(options: RelayOptions): Promise<ConnectionRelay> {
  const { address, port, targetPort = port, clients } = options;
  const { halfClosedMs = defaultHalfClosedMs } = options;
  const open = new Set<Socket>();
  const entered = new Set<RelayConnection>();
  const server = createServer({ allowHalfOpen: true }, (client) => {
    const end = (): void => {
      for (const socket of [client, upstream]) reset(socket);
    };
    // Clients of one address leave room for those of others, also where it listens at all of them.
    const asked = client.localAddress ?? address;
    const connection = clients.enter(`${asked} ${port}`, end, () => server.listening);
    if (!connection) {
      client.on("error", ignoreFailure).resetAndDestroy();
      return;
    }
    entered.add(connection);
    client
      .once("close", () => {
        entered.delete(connection);
        connection.leave();
      })
      .once("timeout", () => {
        // Without a reset, as the kernel may have bytes that a slow client has yet to read.
        for (const socket of [client, upstream]) socket.destroy();
      });
    const upstream = connect({
      host: targetOf(client.remoteAddress, client.localAddress, options),
      port: targetPort,
      allowHalfOpen: true,
    });
    for (const socket of [client, upstream]) {
      open.add(socket);
      socket
        .once("close", () => open.delete(socket))
        .once("end", () => {
          connection.halfClose();
          // Of an end that has sent all, Node sees not even a reset. What the other one sends passes the client, and begins the time again.
          client.setTimeout(halfClosedMs);
        })
        .setNoDelay(true)
        .setKeepAlive(true, keepAliveMs);
    }
    join(client, upstream);
  });
  const endConnections = (): void => {
    for (const socket of open) socket.destroy();
    // Sockets close after the server.
    for (const connection of entered) connection.leave();
  };
  return await listenAt(server, { address, port, endConnections });
}

/**
 * @param client its address; undefined if it has gone
 * @param asked the address that it has sent to
 */
function targetOf(
  client: string | undefined,
  asked: string | undefined,
  { target, others }: RelayOptions,
): string {
  if (!others) return target;
  return client !== undefined && others.own.has(client, asked) ? target : others.target;
}

/** Each direction ends by itself; a failure of one side is one of the other, which learns of it as a reset. */
function join(client: Socket, upstream: Socket): void {
  // Before the pipelines see the failure: they would end the other side as if all had come.
  upstream.once("error", () => reset(client));
  client.once("error", () => reset(upstream));
  pipeline(client, upstream, ignoreFailure);
  pipeline(upstream, client, ignoreFailure);
}

/**
 * Closes a connection with a reset, unless its end is under way and the kernel has all of its bytes: then Node's reset fails, and leaves
 * the descriptor open for good.
 */
export function reset(socket: Socket): void {
  const isEnding = socket.writableEnded && !socket.writableFinished && socket.writableLength === 0;
  if (isEnding) socket.destroy();
  else socket.resetAndDestroy();
}

/** Listens on a UDP port and passes each packet on; answers go back to the client. @throws the error of listening */
export async function openUdpRelay(options: RelayOptions): Promise<Relay> {
  const { address, port, targetPort = port, clients } = options;
  const server = createSocket("udp4");
  /** By client, the one that was silent for longest first. */
  const flows = new Map<string, UdpFlow>();
  const forget = (name: string): void => {
    const flow = flows.get(name);
    if (!flow) return;
    flows.delete(name);
    clients.end(flow);
    flow.socket.close();
  };
  server.on("message", (message, client) => {
    const name = `${client.address} ${client.port}`;
    const flow =
      flows.get(name) ?? newFlow(server, client, targetOf(client.address, address, options));
    flows.delete(name);
    flows.set(name, flow);
    clients.use(flow, () => forget(name));
    flow.socket.send(message, targetPort, flow.target, ignoreFailure);
    const [oldest] = flows.keys();
    if (flows.size > mostClients && oldest !== undefined) forget(oldest);
  });
  server.bind(port, address);
  try {
    await once(server, "listening");
  } catch (error) {
    server.close(); // Node leaves its descriptor open
    throw error;
  }
  server.on("error", () => {});
  return {
    port: server.address().port,
    [Symbol.asyncDispose]: async () => {
      const closed = once(server, "close");
      server.close();
      for (const name of flows.keys()) forget(name);
      await closed;
    },
  };
}

/** What passes on the packets of one client. */
interface UdpFlow {
  readonly socket: UdpSocket;
  readonly target: string;
}

function newFlow(server: UdpSocket, client: RemoteInfo, target: string): UdpFlow {
  const socket = createSocket("udp4");
  socket.on("message", (answer, from) => {
    // Who wants no answer may send from port 0, to which nothing can be sent.
    if (from.address === target && client.port > 0)
      server.send(answer, client.port, client.address, ignoreFailure);
  });
  socket.on("error", () => {});
  return { socket, target };
}

/** The sockets' own events have shown it, and UDP promises nothing. */
function ignoreFailure(): void {}
