import { EventEmitter, once } from "node:events";
import { createWebSocketStream, WebSocket } from "ws";
import type { ClientTls } from "./kubelet-api-fixture.ts";
import { SpdyTestClient } from "./spdy-test-client.ts";

/** How a {@link WebSocketTestClient} ended. */
export interface Closed {
  readonly code: number;
  readonly reason: string;
}

/** A client of the `*.channel.k8s.io` protocols for tests. */
export class WebSocketTestClient {
  readonly socket: WebSocket;
  /** Messages in the order they came, decoded. */
  readonly messages: { readonly channel: number; readonly data: Buffer }[] = [];
  /** Whether all messages were texts. */
  onlyTexts = true;
  readonly closed: Promise<Closed>;
  readonly #events = new EventEmitter().setMaxListeners(0);

  /** Takes a WebSocket that is open. */
  private constructor(socket: WebSocket) {
    this.socket = socket;
    socket.on("message", (data: Buffer, isBinary) => {
      if (isBinary) this.onlyTexts = false;
      const isBase64 = socket.protocol.includes("base64");
      const channel = isBase64 ? data.readUInt8(0) - 0x30 : data.readUInt8(0);
      const rest = data.subarray(1);
      this.messages.push({
        channel,
        data: isBase64 ? Buffer.from(rest.toString(), "base64") : rest,
      });
      this.#events.emit("change");
    });
    this.closed = new Promise((resolve) => {
      socket.on("close", (code, reason) => {
        resolve({ code, reason: reason.toString() });
        this.#events.emit("change");
      });
    });
    socket.on("error", () => {});
  }

  /** Connects. @throws the status code as an error's message, if the server refuses */
  static async connect(
    port: number,
    path: string,
    protocols: readonly string[],
    tls: ClientTls,
  ): Promise<WebSocketTestClient> {
    const socket = new WebSocket(`wss://127.0.0.1:${port}${path}`, [...protocols], { ...tls });
    const refused = new Promise<never>((_resolve, reject) => {
      socket.once("unexpected-response", (_request, response) => {
        let text = "";
        response.on("data", (chunk: Buffer) => (text += chunk.toString()));
        response.on("end", () => reject(new Error(`${response.statusCode} ${text}`)));
      });
      socket.once("error", reject);
    });
    const client = new WebSocketTestClient(socket);
    await Promise.race([once(socket, "open"), refused]);
    return client;
  }

  /** Sends a message on a channel. */
  send(channel: number, data: string | Buffer): void {
    const bytes = Buffer.from(data);
    if (this.socket.protocol.includes("base64"))
      this.socket.send(`${channel}${bytes.toString("base64")}`);
    else this.socket.send(Buffer.concat([Buffer.of(channel), bytes]));
  }

  /** What came on a channel so far. */
  received(channel: number): Buffer {
    return Buffer.concat(
      this.messages.filter((message) => message.channel === channel).map(({ data }) => data),
    );
  }

  /** Waits until something is true, which only a message or the end can make it. */
  async until(condition: () => boolean): Promise<void> {
    while (!condition()) {
      if (this.socket.readyState === WebSocket.CLOSED) throw new Error("The connection has ended");
      await once(this.#events, "change");
    }
  }
}

/** Opens a WebSocket with SPDY tunnelled in it, for port-forward. */
export async function connectTunnel(
  port: number,
  path: string,
  tls: ClientTls,
): Promise<SpdyTestClient> {
  const protocol = "SPDY/3.1+portforward.k8s.io";
  const headers = { "Sec-WebSocket-Protocol": protocol };
  const socket = new WebSocket(`wss://127.0.0.1:${port}${path}`, [], { ...tls, headers });
  let chosen: string | undefined;
  // The library's client refuses a protocol it did not ask for itself; what was chosen is checked here.
  socket.on("upgrade", (response) => {
    chosen = response.headers["sec-websocket-protocol"];
    delete response.headers["sec-websocket-protocol"];
  });
  await once(socket, "open");
  if (chosen !== protocol) throw new Error(`The server chose protocol "${chosen}"`);
  return new SpdyTestClient(createWebSocketStream(socket));
}
