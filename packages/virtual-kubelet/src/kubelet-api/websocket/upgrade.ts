import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { createWebSocketStream, WebSocketServer, type ServerOptions, type WebSocket } from "ws";
import { HttpRefusal } from "../transport/answer.ts";

/**
 * Subprotocol by which browsers hand over a bearer token, as they can set no header: this text and
 * the token, base64url. It cannot be chosen.
 */
export const bearerSubprotocol = "base64url.bearer.authorization.k8s.io.";

/**
 * How long a client that has sent its close message may take to close the connection; until then it does not count as
 * gone.
 */
const closeTimeoutMs = 5000;

/** The most pieces of a message: those of one are taken at once. Clients of Kubernetes send whole messages. */
const maxFragments = 256;

/** Whether a request asks for the connection to become a WebSocket. */
export function isWebSocketUpgrade(request: IncomingMessage): boolean {
  const { connection = "", upgrade = "" } = request.headers;
  return /\bupgrade\b/i.test(connection) && upgrade.toLowerCase() === "websocket";
}

/** The subprotocols a client offers, in its order. */
export function offeredProtocols(request: IncomingMessage): readonly string[] {
  const header = request.headers["sec-websocket-protocol"] ?? "";
  return header
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "");
}

/**
 * The first protocol of the client's list that is known; the empty one if the client names none.
 * @throws HttpRefusal 400 with both lists
 */
export function chooseProtocol(request: IncomingMessage, known: readonly string[]): string {
  const offered = offeredProtocols(request).filter((name) => !name.startsWith(bearerSubprotocol));
  const name = offered.length === 0 ? "" : offered.find((candidate) => known.includes(candidate));
  if (name !== undefined && known.includes(name)) return name;
  const lists = `client supports [${offered.join(" ")}], server accepts [${known.join(" ")}]`;
  throw new HttpRefusal(400, `unable to upgrade: unable to negotiate protocol: ${lists}`);
}

/**
 * Answers the upgrade of a request and gives the WebSocket, or undefined if the request was not
 * valid, in which case it has been answered.
 * @param protocol empty if none is to be named
 * @param maxMessageBytes longest message; a longer one closes the connection with status 1009
 */
export function acceptWebSocket(
  request: IncomingMessage,
  socket: Duplex,
  head: Buffer,
  { protocol, maxMessageBytes }: { readonly protocol: string; readonly maxMessageBytes: number },
): WebSocket | undefined {
  // The library's types do not know the first two yet.
  const options: ServerOptions & Readonly<Record<"closeTimeout" | "maxFragments", number>> = {
    closeTimeout: closeTimeoutMs,
    maxFragments,
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: maxMessageBytes,
    // One message of a client in each turn of the event loop: thousands fit into what is read at once.
    allowSynchronousEvents: false,
    skipUTF8Validation: true, // texts are base64, which is checked when it is decoded
  };
  const server = new WebSocketServer(options);
  // The library reads the names as RFC 6455 defines them, which the slash of "SPDY/3.1+…" is not in.
  delete request.headers["sec-websocket-protocol"];
  server.on("headers", (headers) => {
    if (protocol !== "") headers.push(`Sec-WebSocket-Protocol: ${protocol}`);
  });
  let accepted: WebSocket | undefined;
  server.handleUpgrade(request, socket, head, (webSocket) => {
    accepted = webSocket;
  });
  return accepted;
}

/**
 * The bytes of a WebSocket's messages as one stream, for a protocol that is tunnelled in it. What is
 * written together goes out as one message.
 */
export function tunnelStream(webSocket: WebSocket): Duplex {
  return createWebSocketStream(webSocket, {
    writev: (chunks, callback) => {
      const data = chunks.map(({ chunk }) => chunk as Buffer); // no encoding was set
      webSocket.send(Buffer.concat(data), { binary: true }, callback);
    },
  });
}
