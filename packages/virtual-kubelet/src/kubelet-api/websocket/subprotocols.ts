import { HttpRefusal } from "../transport/answer.ts";
import type { RemoteCommandDialect, RemoteCommandStreams } from "../transport/remote-streams.ts";
import type { ChannelDefinition } from "./channel-stream.ts";
import type { ChannelProtocol, WebSocketConnectionOptions } from "./connection.ts";

/** Subprotocols of exec and attach, newest first. The empty one is for clients that name none. */
export const commandSubprotocols = [
  "v5.channel.k8s.io",
  "v4.channel.k8s.io",
  "v4.base64.channel.k8s.io",
  "v3.channel.k8s.io",
  "v2.channel.k8s.io",
  "channel.k8s.io",
  "base64.channel.k8s.io",
  "",
] as const;

/** Name of the subprotocol whose messages contain the bytes of a SPDY/3.1 connection. */
export const tunnelSubprotocol = "SPDY/3.1+portforward.k8s.io";

/** Subprotocols of port-forward. */
export const portForwardSubprotocols = [
  tunnelSubprotocol,
  "v4.channel.k8s.io",
  "v4.base64.channel.k8s.io",
  "",
] as const;

/** Maximum number of ports for one WebSocket: each uses two of the 255 channels. */
const maxPorts = 127;

type Channels = Pick<
  WebSocketConnectionOptions,
  "protocol" | "channels" | "greetings" | "closesWhenDone"
>;

/** Message format of a subprotocol. */
export function channelProtocol(subprotocol: string): ChannelProtocol {
  return {
    isBase64: /\bbase64\b/.test(subprotocol),
    canEndChannels: subprotocol.startsWith("v5."),
  };
}

/** The dialect of one of {@link commandSubprotocols}. Every version has a channel for terminal sizes. */
export function webSocketDialect(subprotocol: string): RemoteCommandDialect {
  return { hasJsonStatus: /^v[45]\./.test(subprotocol), hasResizes: true };
}

/**
 * The channels of exec and attach: 0 stdin, 1 stdout, 2 stderr, 3 the outcome, 4 terminal sizes. An empty message on the first
 * channel that the server writes tells the client that everything is set up.
 */
export function commandChannels(subprotocol: string, wanted: RemoteCommandStreams): Channels {
  const channels: ChannelDefinition[] = [];
  const add = (
    channel: number,
    streamtype: string,
    direction: ChannelDefinition["direction"],
  ): void => {
    channels.push({ channel, direction, headers: new Map([["streamtype", streamtype]]) });
  };
  if (wanted.stdin) add(0, "stdin", "read");
  if (wanted.stdout) add(1, "stdout", "write");
  if (wanted.stderr) add(2, "stderr", "write");
  add(3, "error", "write");
  if (wanted.tty) add(4, "resize", "read");
  const first = channels.find(({ direction }) => direction === "write")?.channel ?? 3;
  return {
    protocol: channelProtocol(subprotocol),
    channels,
    greetings: [{ channel: first, data: Buffer.alloc(0) }],
    closesWhenDone: false,
  };
}

/**
 * The channels of port-forward: two for each port, for its bytes and for an error. The first message of each channel is the
 * port.
 */
export function portForwardChannels(subprotocol: string, ports: readonly number[]): Channels {
  const headers = (streamtype: string, index: number, port: number): ReadonlyMap<string, string> =>
    new Map([
      ["streamtype", streamtype],
      ["port", String(port)],
      ["requestid", String(index)],
    ]);
  const channels = ports.flatMap((port, index): ChannelDefinition[] => [
    { channel: 2 * index, direction: "both", headers: headers("data", index, port) },
    { channel: 2 * index + 1, direction: "write", headers: headers("error", index, port) },
  ]);
  return {
    protocol: channelProtocol(subprotocol),
    channels,
    greetings: channels.map(({ channel }) => {
      const data = Buffer.alloc(2);
      data.writeUInt16LE(ports[channel >> 1] ?? 0);
      return { channel, data };
    }),
    closesWhenDone: true,
  };
}

/**
 * The ports in a WebSocket's query: `port=80,81&port=82`.
 * @throws HttpRefusal 400
 */
export function queryPorts(query: URLSearchParams): readonly number[] {
  const values = query.getAll("port");
  if (values.length === 0) throw new HttpRefusal(400, 'query parameter "port" is required');
  const ports = values.flatMap((value) => {
    if (value === "") throw new HttpRefusal(400, 'query parameter "port" cannot be empty');
    return value.split(",").map(parsePort);
  });
  if (ports.length > maxPorts)
    throw new HttpRefusal(400, `at most ${maxPorts} ports can be forwarded by one WebSocket`);
  return ports;
}

function parsePort(text: string): number {
  const port = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (!(port <= 65_535)) throw new HttpRefusal(400, `unable to parse "${text}" as a port`);
  if (port < 1) throw new HttpRefusal(400, `port "${text}" must be > 0`);
  return port;
}
