import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { createWebSocketStream, WebSocketServer, type ServerOptions, type WebSocket } from "ws";
import { HttpRefusal } from "../transport/answer.ts";

/**
 * Prefix of the subprotocol in which browsers send a bearer token, because they cannot set headers. The token follows in
 * base64url. The server cannot select this subprotocol.
 */
export const bearerSubprotocol = "base64url.bearer.authorization.k8s.io.";

/**
 * How long a client may take to close the connection after its close frame, milliseconds. Until then the client counts as
 * connected.
 */
const closeTimeoutMs = 5000;

/**
 * Maximum number of frames in a message, because the frames of one message are processed at once. Kubernetes clients send whole
 * messages.
 */
const maxFragments = 256;

/** Whether a request asks to upgrade the connection to a WebSocket. */
export function isWebSocketUpgrade(request: IncomingMessage): boolean {
  const { connection = "", upgrade = "" } = request.headers;
  return /\bupgrade\b/i.test(connection) && upgrade.toLowerCase() === "websocket";
}

/** The subprotocols that a client offers, in its order. */
export function offeredProtocols(request: IncomingMessage): readonly string[] {
  const header = request.headers["sec-websocket-protocol"] ?? "";
  return header
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "");
}

/**
 * Chooses the first protocol of the client's list that is known. Empty if the client names none.
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
 * Responds to the upgrade request and returns the WebSocket. Undefined if the request was invalid; then the response has been
 * sent.
 * @param protocol empty to name none
 * @param maxMessageBytes maximum length of a message; a longer one closes the connection with status 1009
 */
export function acceptWebSocket(
  request: IncomingMessage,
  socket: Duplex,
  head: Buffer,
  { protocol, maxMessageBytes }: { readonly protocol: string; readonly maxMessageBytes: number },
): WebSocket | undefined {
  // The library's types lack the first two.
  const options: ServerOptions & Readonly<Record<"closeTimeout" | "maxFragments", number>> = {
    closeTimeout: closeTimeoutMs,
    maxFragments,
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: maxMessageBytes,
    // Handles one message of a client per turn of the event loop, because a single read can contain thousands.
    allowSynchronousEvents: false,
    skipUTF8Validation: true, // texts are base64, which is checked when it is decoded
  };
  const server = new WebSocketServer(options);
  // The library only accepts names according to RFC 6455, which does not allow the slash of "SPDY/3.1+…".
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
 * A stream of the bytes in a WebSocket's messages, for a protocol that is tunnelled in it. Bytes that are written together are
 * sent as one message.
 */
export function tunnelStream(webSocket: WebSocket): Duplex {
  return createWebSocketStream(webSocket, {
    writev: (chunks, callback) => {
      const data = chunks.map(({ chunk }) => chunk as Buffer); // no encoding was set
      webSocket.send(Buffer.concat(data), { binary: true }, callback);
    },
  });
}
