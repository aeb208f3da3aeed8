// A kubelet API in a process of its own, and clients for it that keep to no rule.
import assert from "node:assert/strict";
import { fork, type ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import https from "node:https";
import type { Duplex } from "node:stream";
import tls from "node:tls";
import { CertificateAuthority } from "@kip/pki";
import type { TargetAnswer, TargetQuestion } from "./kubelet-api-target.ts";
import type { ClientTls } from "./kubelet-api-fixture.ts";
import { SpdyTestClient } from "./spdy-test-client.ts";
import { WebSocketTestClient } from "./websocket-test-client.ts";

const host = "127.0.0.1";
const hourMs = 3_600_000;

/** The process, with a client that may do everything and one without credentials. */
export class HostileTarget implements AsyncDisposable {
  readonly client: ClientTls;
  readonly anonymous: ClientTls;
  port = 0;
  readonly #process: ChildProcess;

  private constructor(client: ClientTls, anonymous: ClientTls) {
    this.client = client;
    this.anonymous = anonymous;
    this.#process = fork(new URL("./kubelet-api-target.ts", import.meta.url), {
      execArgv: ["--expose-gc"],
    });
  }

  static async start(): Promise<HostileTarget> {
    const authority = await CertificateAuthority.create({ commonName: "test", validMs: hourMs });
    const options = { ipAddresses: [host], validMs: hourMs };
    const server = await authority.issue({ ...options, commonName: "server", usages: ["server"] });
    const pair = await authority.issue({ ...options, commonName: "client", usages: ["client"] });
    const anonymous = { ca: authority.certificate };
    const target = new HostileTarget(
      { ...anonymous, cert: pair.certificate, key: pair.key },
      anonymous,
    );
    const started = await target.ask({
      ask: "start",
      tls: { ...server, clientCa: authority.certificate },
    });
    target.port = started.port ?? 0;
    return target;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#process.kill();
    await once(this.#process, "exit");
  }

  /** Somebody else's exec, which works whatever goes on. */
  async undisturbed(): Promise<void> {
    const session = await this.webSocket("/exec/ns/p/c?command=echo&command=fine&output=1");
    await session.closed;
    assert.equal(session.received(1).toString(), "fine\n");
  }

  async ask(question: TargetQuestion): Promise<TargetAnswer> {
    this.#process.send(question);
    const [answer] = (await once(this.#process, "message")) as [TargetAnswer];
    return answer;
  }

  async memory(): Promise<number> {
    return (await this.ask({ ask: "memory" })).memoryBytes ?? 0;
  }

  async connect(who = this.client): Promise<tls.TLSSocket> {
    const socket = tls.connect({ host, port: this.port, ...who });
    socket.on("error", () => {});
    await once(socket, "secureConnect");
    return socket;
  }

  async exchange(bytes: string, who = this.client): Promise<string> {
    const socket = await this.connect(who);
    const answer = collect(socket);
    socket.write(bytes);
    return await answer;
  }

  async status(
    path: string,
    options: https.RequestOptions,
    who: ClientTls,
  ): Promise<number | undefined> {
    const request = https.request({
      host,
      port: this.port,
      path,
      agent: false,
      ...who,
      ...options,
    });
    request.end();
    const [response] = (await once(request, "response")) as [
      NodeJS.ReadableStream & { statusCode?: number },
    ];
    response.resume();
    return response.statusCode;
  }

  async spdy(path: string): Promise<SpdyTestClient> {
    const protocol = path.startsWith("/exec") ? "v4.channel.k8s.io" : "portforward.k8s.io";
    return await SpdyTestClient.connect({ host, port: this.port, path, ...this.client }, protocol);
  }

  async webSocket(path: string): Promise<WebSocketTestClient> {
    return await WebSocketTestClient.connect(this.port, path, ["v5.channel.k8s.io"], this.client);
  }

  async rawWebSocket(path: string): Promise<tls.TLSSocket> {
    const headers = {
      Connection: "Upgrade",
      Upgrade: "websocket",
      "Sec-WebSocket-Version": "13",
      "Sec-WebSocket-Key": randomBytes(16).toString("base64"),
      "Sec-WebSocket-Protocol": "v5.channel.k8s.io",
    };
    const request = https.request({
      host,
      port: this.port,
      path,
      agent: false,
      headers,
      ...this.client,
    });
    request.end();
    const [, socket] = (await once(request, "upgrade")) as [unknown, tls.TLSSocket];
    socket.on("error", () => {});
    return socket;
  }
}

/** A client's WebSocket frame, masked with zeros. */
export function webSocketFrame(first: number, payload: Buffer): Buffer {
  const length = payload.length < 126 ? Buffer.of(0x80 | payload.length) : Buffer.alloc(3);
  if (length.length === 3) {
    length.writeUInt8(0x80 | 126);
    length.writeUInt16BE(payload.length, 1);
  }
  return Buffer.concat([Buffer.of(first), length, Buffer.alloc(4), payload]);
}

export async function closed(socket: Duplex): Promise<void> {
  if (!socket.closed) await new Promise<void>((resolve) => socket.once("close", resolve));
}

/** Waits until the socket takes more, or nothing ever again. */
export async function drained(socket: Duplex): Promise<void> {
  const done = new AbortController();
  const { signal } = done;
  const any = ["drain", "close"].map(async (event) => await once(socket, event, { signal }));
  await Promise.race(any).catch(() => {}); // an error is followed by its close
  done.abort();
  await Promise.allSettled(any);
}

export async function collect(socket: Duplex): Promise<string> {
  let text = "";
  socket.on("data", (chunk: Buffer) => (text += chunk.toString("latin1")));
  await closed(socket);
  return text;
}
