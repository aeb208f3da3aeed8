import { createSocket, type RemoteInfo, type Socket as UdpSocket } from "node:dgram";
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { pipeline } from "node:stream";
import { listenAt, type ConnectionRelay, type Relay } from "./listen-at.ts";
import type { OwnAddresses } from "./own-addresses.ts";
import { maxClients, type RelayClients, type RelayConnection } from "./relay-clients.ts";

/** Addresses and limits of a relay. */
export interface RelayOptions {
  /** Address to listen on. */
  readonly address: string;
  /** Port to listen on, and of the target. 0 is for tests. */
  readonly port: number;
  readonly target: string;
  /** Target for clients on other computers, and how to recognise clients on this one. @default target */
  readonly others?: { readonly target: string; readonly own: OwnAddresses } | undefined;
  /** @default port */
  readonly targetPort?: number | undefined;
  /** The clients of this relay and others. */
  readonly clients: RelayClients;
  /** How long a half-closed TCP connection may be silent, milliseconds. @default one hour */
  readonly halfClosedMs?: number | undefined;
}

/** Time until the first keepalive probe of a silent peer, milliseconds. */
const keepAliveMs = 15_000;

/** kube-proxy configures the same time for translated half-closed connections in Linux. */
const defaultHalfClosedMs = 3_600_000;

/** Listens on a TCP port and relays each connection in both directions. @throws the error of listening */
export async function openTcpRelay(options: RelayOptions): Promise<ConnectionRelay> {
  const { address, port, targetPort = port, clients } = options;
  const { halfClosedMs = defaultHalfClosedMs } = options;
  const open = new Set<Socket>();
  const entered = new Set<RelayConnection>();
  const server = createServer({ allowHalfOpen: true }, (client) => {
    const end = (): void => {
      for (const socket of [client, upstream]) reset(socket);
    };
    // Counted by destination address, even if the relay listens on all addresses. So clients of one address do not displace
    // those of others.
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
        // Without a reset, because the kernel may still have data that a slow client has not read.
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
          // Node does not even notice a reset of an end that has sent everything. Data from the other end go to the client and
          // restart the time limit.
          client.setTimeout(halfClosedMs);
        })
        .setNoDelay(true)
        .setKeepAlive(true, keepAliveMs);
    }
    join(client, upstream);
  });
  const endConnections = (): void => {
    for (const socket of open) socket.destroy();
    // Sockets are closed after the server.
    for (const connection of entered) connection.leave();
  };
  return await listenAt(server, { address, port, endConnections });
}

/**
 * @param client the client's address; undefined if it has disconnected
 * @param asked the address to which the client has sent
 */
function targetOf(
  client: string | undefined,
  asked: string | undefined,
  { target, others }: RelayOptions,
): string {
  if (!others) return target;
  return client !== undefined && others.own.has(client, asked) ? target : others.target;
}

/** Each direction ends by itself. A failure of one side is passed to the other as a reset. */
function join(client: Socket, upstream: Socket): void {
  // Before the pipelines notice the failure, because they would end the other side as if everything had arrived.
  upstream.once("error", () => reset(client));
  client.once("error", () => reset(upstream));
  pipeline(client, upstream, ignoreFailure);
  pipeline(upstream, client, ignoreFailure);
}

/**
 * Closes a connection with a reset, unless it is already ending and the kernel has all its data. In that case Node's reset
 * would fail and leak the file descriptor.
 */
export function reset(socket: Socket): void {
  const isEnding = socket.writableEnded && !socket.writableFinished && socket.writableLength === 0;
  if (isEnding) socket.destroy();
  else socket.resetAndDestroy();
}

/** Listens on a UDP port and relays each packet. Answers go back to the client. @throws the error of listening */
export async function openUdpRelay(options: RelayOptions): Promise<Relay> {
  const { address, port, targetPort = port, clients } = options;
  const server = createSocket("udp4");
  /** By client. The one that was silent for longest is first. */
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
    if (flows.size > maxClients && oldest !== undefined) forget(oldest);
  });
  server.bind(port, address);
  try {
    await once(server, "listening");
  } catch (error) {
    server.close(); // otherwise Node leaks its file descriptor
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

/** Relays the packets of one client. */
interface UdpFlow {
  readonly socket: UdpSocket;
  readonly target: string;
}

function newFlow(server: UdpSocket, client: RemoteInfo, target: string): UdpFlow {
  const socket = createSocket("udp4");
  socket.on("message", (answer, from) => {
    // A client that wants no answer may send from port 0, to which nothing can be sent.
    if (from.address === target && client.port > 0)
      server.send(answer, client.port, client.address, ignoreFailure);
  });
  socket.on("error", () => {});
  return { socket, target };
}

/** The sockets' own events have reported it, and UDP does not guarantee delivery. */
function ignoreFailure(): void {}
