import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { mergeSmallPieces, type Clock, type Logger } from "@kip/base";
import type { Pod } from "@kip/k8s-types";
import type { WebSocket } from "ws";
import { HttpRefusal } from "./transport/answer.ts";
import type { KubeletHandlers, KubeletLimits } from "./options.ts";
import { portForwardProtocols, servePortForward } from "./port-forward.ts";
import { remoteCommandProtocols, serveRemoteCommand, spdyDialect } from "./remote-command.ts";
import type {
  RemoteCommandDialect,
  RemoteCommandStreams,
  RemoteStreams,
} from "./transport/remote-streams.ts";
import type { StreamMemory } from "./transport/stream-memory.ts";
import type { Turns } from "./transport/turns.ts";
import type { StreamRoute } from "./routes.ts";
import { SpdyConnection } from "./spdy/connection.ts";
import { gatherFrames } from "./websocket/gather-frames.ts";
import { WebSocketConnection } from "./websocket/connection.ts";
import {
  commandChannels,
  commandSubprotocols,
  portForwardChannels,
  portForwardSubprotocols,
  queryPorts,
  tunnelSubprotocol,
  webSocketDialect,
} from "./websocket/subprotocols.ts";
import {
  acceptWebSocket,
  chooseProtocol,
  isWebSocketUpgrade,
  tunnelStream,
} from "./websocket/upgrade.ts";

/** Status code of a close frame, registered for WebSockets. */
const tryAgainLater = 1013;

/** The services that a stream request needs. */
export interface StreamServices {
  readonly handlers: KubeletHandlers;
  readonly limits: KubeletLimits;
  readonly streamIdleTimeoutMs: number;
  readonly streamCreationTimeoutMs: number;
  readonly turns: Turns;
  readonly memory: StreamMemory;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** A valid stream request. */
export interface StreamRequest {
  /** Responds to the upgrade and serves the connection. Resolves at its end. */
  begin(socket: Duplex, head: Buffer): Promise<void>;
}

/**
 * Checks a request for exec, attach or port-forward.
 * @throws HttpRefusal with the kubelet's message
 */
export function prepareStreamRequest(
  request: IncomingMessage,
  query: URLSearchParams,
  route: StreamRoute,
  pod: Pod,
  services: StreamServices,
): StreamRequest {
  const served =
    route.kind === "portForward"
      ? preparePortForward(pod, services, query)
      : prepareCommand(route, query, pod, services);
  if (isWebSocketUpgrade(request)) return overWebSocket(request, served, services);
  if (isSpdyUpgrade(request)) return overSpdy(request, served, services);
  throw new HttpRefusal(
    400,
    "unable to upgrade: missing upgrade headers for SPDY/3.1 or WebSocket in request",
  );
}

/** Whether a request asks to upgrade the connection to SPDY or WebSocket. */
export function isStreamUpgrade(request: IncomingMessage): boolean {
  return isSpdyUpgrade(request) || isWebSocketUpgrade(request);
}

function isSpdyUpgrade(request: IncomingMessage): boolean {
  const { connection = "", upgrade = "" } = request.headers;
  return /\bupgrade\b/i.test(connection) && /\bspdy\/3\.1\b/i.test(upgrade);
}

function overSpdy(
  request: IncomingMessage,
  served: Served,
  services: StreamServices,
): StreamRequest {
  const protocol = negotiate(request, served.spdyProtocols);
  return {
    begin: async (socket, head) => {
      const version = protocol.isChosen ? `X-Stream-Protocol-Version: ${protocol.name}\r\n` : "";
      socket.write(
        `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n${version}\r\n`,
      );
      await served.serve(spdyStreams(socket, head, services), spdyDialect(protocol.name));
    },
  };
}

function overWebSocket(
  request: IncomingMessage,
  served: Served,
  services: StreamServices,
): StreamRequest {
  const protocol = chooseProtocol(request, served.subprotocols);
  const channels = protocol === tunnelSubprotocol ? undefined : served.channels(protocol);
  const { messageBytes, streamBufferBytes } = services.limits;
  const { streamIdleTimeoutMs: idleTimeoutMs, clock, logger } = services;
  return {
    begin: async (socket, head) => {
      const memory = services.memory.connection();
      if (!memory.hasRoomFor(channels?.channels.length ?? 0))
        throw new HttpRefusal(429, "too many streams are open", { "Retry-After": "1" });
      let webSocket: WebSocket | undefined;
      gatherFrames(socket, head, {
        maxMessageBytes: messageBytes,
        take: (bytes, ofMessage) => memory.take(bytes, ofMessage),
        give: (bytes) => memory.give(bytes),
        // Honest clients send nothing before the WebSocket is established.
        refuse: () => (webSocket ? closeForRoom(webSocket) : socket.destroy()),
      });
      const options = { protocol, maxMessageBytes: messageBytes };
      webSocket = acceptWebSocket(request, socket, head, options);
      if (webSocket === undefined) return;
      const dialect = webSocketDialect(protocol);
      if (channels === undefined) {
        const tunnel = tunnelStream(webSocket);
        mergeSmallPieces(tunnel);
        await served.serve(spdyStreams(tunnel, Buffer.alloc(0), services), dialect);
        return;
      }
      const remote = new WebSocketConnection(webSocket, {
        ...channels,
        streamBufferBytes,
        memory,
        idleTimeoutMs,
        clock,
        logger,
      });
      await served.serve(remote, dialect);
    },
  };
}

function closeForRoom(webSocket: WebSocket): void {
  webSocket.close(
    tryAgainLater,
    "no room for so long a message now: send shorter ones, or try again later",
  );
}

function spdyStreams(socket: Duplex, head: Buffer, services: StreamServices): RemoteStreams {
  const { streamsPerConnection, streamHeaderBytes, streamBufferBytes } = services.limits;
  const { streamIdleTimeoutMs: idleTimeoutMs, turns, clock, logger } = services;
  const limits = { streamsPerConnection, streamHeaderBytes, streamBufferBytes };
  const memory = services.memory.connection();
  const options = { ...limits, idleTimeoutMs, turns, memory, clock, logger };
  return new SpdyConnection(socket, head, options);
}

/** What to serve, over SPDY or WebSocket. */
interface Served {
  readonly spdyProtocols: readonly string[];
  readonly subprotocols: readonly string[];
  /** The channels of one of `subprotocols`. */
  channels(subprotocol: string): ReturnType<typeof commandChannels>;
  serve(remote: RemoteStreams, dialect: RemoteCommandDialect): Promise<void>;
}

function preparePortForward(pod: Pod, services: StreamServices, query: URLSearchParams): Served {
  const { handlers, clock, logger, streamCreationTimeoutMs: creationTimeoutMs } = services;
  if (handlers.portForward === undefined) throw new HttpRefusal(501, "501 not implemented");
  return {
    spdyProtocols: portForwardProtocols,
    subprotocols: portForwardSubprotocols,
    channels: (subprotocol) => portForwardChannels(subprotocol, queryPorts(query)),
    serve: async (remote) => {
      await servePortForward({
        remote,
        creationTimeoutMs,
        forward: async (port, connection, signal) =>
          await handlers.portForward?.(pod, port, connection, signal),
        podName: `${pod.metadata.name}_${pod.metadata.namespace}`,
        podUid: pod.metadata.uid,
        clock,
        logger,
      });
    },
  };
}

function prepareCommand(
  route: Extract<StreamRoute, { kind: "exec" | "attach" }>,
  query: URLSearchParams,
  pod: Pod,
  services: StreamServices,
): Served {
  const { handlers, clock, logger, streamCreationTimeoutMs: creationTimeoutMs } = services;
  const { container } = route;
  const wanted = wantedStreams(query);
  const command = query.getAll("command");
  const { exec, attach } = handlers;
  const isExec = route.kind === "exec";
  if ((isExec ? exec : attach) === undefined) throw new HttpRefusal(501, "501 not implemented");
  if (isExec && command.length === 0) throw new HttpRefusal(400, "you must specify a command");
  return {
    spdyProtocols: remoteCommandProtocols,
    subprotocols: commandSubprotocols,
    channels: (subprotocol) => commandChannels(subprotocol, wanted),
    serve: async (remote, dialect) => {
      await serveRemoteCommand({
        remote,
        dialect,
        wanted,
        creationTimeoutMs,
        reportsExitCode: isExec,
        run: async (streams, signal) => {
          const exit = isExec
            ? await handlers.exec?.(pod, container, command, streams, signal)
            : await handlers.attach?.(pod, container, streams, signal);
          return exit ?? { exitCode: 0 };
        },
        clock,
        logger,
      });
    },
  };
}

function wantedStreams(query: URLSearchParams): RemoteCommandStreams {
  const is = (key: string): boolean => query.get(key) === "1";
  const tty = is("tty");
  // A terminal has no separate stderr. Some clients always ask for both, and the kubelet ignores it, too.
  const stderr = is("error") && !tty;
  const wanted = { stdin: is("input"), stdout: is("output"), stderr, tty };
  if (!wanted.stdin && !wanted.stdout && !wanted.stderr)
    throw new HttpRefusal(400, "you must specify at least 1 of stdin, stdout, stderr");
  return wanted;
}

interface Negotiated {
  readonly name: string;
  /** False if the client named no version, like the oldest clients. */
  readonly isChosen: boolean;
}

/** Chooses the first version of the client's list that the server knows. */
function negotiate(request: IncomingMessage, known: readonly string[]): Negotiated {
  const header = request.headers["x-stream-protocol-version"];
  const offered = [header ?? []]
    .flat()
    .flatMap((value) => value.split(","))
    .map((name) => name.trim());
  if (offered.length === 0) return { name: known.at(-1) ?? "", isChosen: false };
  const name = offered.find((candidate) => known.includes(candidate));
  if (name !== undefined) return { name, isChosen: true };
  const lists = `client supports [${offered.join(" ")}], server accepts [${known.join(" ")}]`;
  throw new HttpRefusal(403, `unable to upgrade: unable to negotiate protocol: ${lists}`, {
    "X-Accepted-Stream-Protocol-Versions": known.join(","),
  });
}
