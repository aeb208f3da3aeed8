import type { Duplex } from "node:stream";
import { createWebSocketStream, type WebSocket } from "ws";

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
