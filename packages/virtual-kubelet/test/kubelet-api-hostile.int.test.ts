// Clients that mean harm, against a kubelet API in a process of its own: each is answered or closed,
// memory stays bounded, and somebody else's exec works all the while.
import assert from "node:assert/strict";
import { fork, type ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import https from "node:https";
import net from "node:net";
import type { Duplex } from "node:stream";
import { after, before, describe, it } from "node:test";
import tls from "node:tls";
import { CertificateAuthority } from "@kip/pki";
import * as fc from "fast-check";
import { encodeFrame } from "../src/kubelet-api/spdy/frames.ts";
import type { TargetAnswer, TargetQuestion } from "./kubelet-api-target.ts";
import type { ClientTls } from "./kubelet-api-fixture.ts";
import { SpdyTestClient } from "./spdy-test-client.ts";
import { WebSocketTestClient } from "./websocket-test-client.ts";

const host = "127.0.0.1";
const hourMs = 3_600_000;
/** Fixed, so that inputs that once failed are always tried again. */
const seeds = [20_261_121, 1, 7_340_033] as const;
const mebibyte = 1024 * 1024;

describe("kubelet API towards hostile clients", { timeout: 240_000 }, () => {
  let target: ChildProcess;
  let port: number;
  let client: ClientTls;
  let anonymous: ClientTls;

  before(async () => {
    const authority = await CertificateAuthority.create({ commonName: "test", validMs: hourMs });
    const options = { ipAddresses: [host], validMs: hourMs };
    const server = await authority.issue({ ...options, commonName: "server", usages: ["server"] });
    const pair = await authority.issue({ ...options, commonName: "client", usages: ["client"] });
    anonymous = { ca: authority.certificate };
    client = { ...anonymous, cert: pair.certificate, key: pair.key };
    target = fork(new URL("./kubelet-api-target.ts", import.meta.url), {
      execArgv: ["--expose-gc"],
    });
    const started = await ask({
      ask: "start",
      tls: { ...server, clientCa: authority.certificate },
    });
    port = started.port ?? 0;
  });

  after(async () => {
    target.kill();
    await once(target, "exit");
  });

  it("CVE-2025-0426: a client without credentials gets only 401, by any path, method and upgrade", async () => {
    for (const path of [
      "/pods",
      "/checkpoint/ns/p/c",
      "/exec/ns/p/c?command=id&output=1",
      "/nowhere",
      "/%ff",
      "*",
    ]) {
      for (const method of ["GET", "POST", "DELETE", "OPTIONS"])
        assert.equal(await status(path, { method }, anonymous), 401, `${method} ${path}`);
      for (const upgrade of ["SPDY/3.1", "websocket", "h2c"]) {
        const headers = { Connection: "Upgrade", Upgrade: upgrade };
        assert.equal(await status(path, { headers }, anonymous), 401, `${upgrade} ${path}`);
      }
    }
    await undisturbed();
  });

  it("bytes that are not TLS, and TLS without a request, are closed and hold up no other client", async () => {
    const sockets = [randomBytes(300), "GET /healthz HTTP/1.1\r\n\r\n", "\x16\x03\x01"].map(
      (bytes) => {
        const socket = net.connect({ port, host });
        socket.on("error", () => {});
        socket.write(bytes);
        return socket;
      },
    );
    const idle = await Promise.all(Array.from({ length: 50 }, () => connect()));
    await undisturbed();
    for (const socket of [...sockets, ...idle]) socket.destroy();
  });

  it("CVE-2020-8551: header bombs are refused or closed", async () => {
    const bombs = (bytes: number): readonly string[] => [
      `GET /healthz HTTP/1.1\r\nHost: x\r\nBomb: ${"x".repeat(bytes)}\r\n\r\n`,
      `GET /healthz HTTP/1.1\r\nHost: x\r\n${"a: b\r\n".repeat(bytes / 6)}\r\n`,
      `GET /${"x".repeat(bytes)} HTTP/1.1\r\nHost: x\r\n\r\n`,
      `GET /healthz HTTP/1.1\r\nHost: x\r\nSec-WebSocket-Protocol: ${"a,".repeat(bytes / 2)}\r\n\r\n`,
    ];
    const sent = [
      ...bombs(100_000).map((bomb) => exchange(bomb, anonymous)),
      ...bombs(1.1 * mebibyte).map((bomb) => exchange(bomb, client)),
    ];
    for (const answer of await Promise.all(sent))
      assert.ok(answer === "" || answer.startsWith("HTTP/1.1 431"), answer.slice(0, 80));
    await undisturbed();
  });

  it("CVE-2020-8551: bodies are not read: a large one is answered and closed", async () => {
    const before = await memory();
    for (const head of ["Content-Length: 1000000000", "Transfer-Encoding: chunked"]) {
      const socket = await connect();
      const answer = collect(socket);
      socket.write(`POST /pods HTTP/1.1\r\nHost: x\r\n${head}\r\n\r\n`);
      for (let count = 0; count < 200 && !socket.destroyed; count++) {
        const body = Buffer.alloc(mebibyte / 4);
        const isTaken = socket.write(
          head.startsWith("C") ? body : Buffer.concat([Buffer.from("40000\r\n"), body, crlf]),
        );
        if (!isTaken) await drained(socket);
      }
      socket.destroy();
      assert.ok((await answer) === "" || (await answer).startsWith("HTTP/1.1 405"));
    }
    assert.ok((await memory()) - before < 64 * mebibyte);
    await undisturbed();
  });

  it("CVE-2020-8551: 10,000 streams half open: held within bounds while others work, then forgotten", async () => {
    const before = await memory();
    for (const round of [1, 2, 3]) {
      const hoarders = await Promise.all(
        Array.from({ length: 20 }, async () => await spdy("/portForward/ns/p")),
      );
      await Promise.all(
        hoarders.map(async (hoarder) => {
          for (let request = 0; request < 500; request++)
            await hoarder.open({ streamType: "data", port: "80", requestID: `${request}` });
          hoarder.send({ type: "ping", id: 1 });
          await hoarder.frame("ping");
        }),
      );
      const { memoryBytes = 0, heapBytes = 0 } = await ask({ ask: "memory" });
      // What the allocator keeps differs from run to run; the objects of a stream are some 4 KB.
      assert.ok(memoryBytes - before < 400 * mebibyte, `${memoryBytes} bytes in round ${round}`);
      assert.ok(heapBytes < 100 * mebibyte, `${heapBytes} bytes of objects in round ${round}`);
      await undisturbed();
      for (const { socket } of hoarders) socket.destroy();
      await Promise.all(hoarders.map(async ({ closed }) => await closed));
    }
    const one = await spdy("/portForward/ns/p");
    for (let request = 0; request < 10_000; request++)
      await one.open({ streamType: "error", port: "80", requestID: `${request}` });
    one.send({ type: "ping", id: 1 });
    await one.frame("ping");
    const refused = one.frames.filter((frame) => frame.type === "rstStream");
    assert.equal(refused.length, 10_000 - 512);
    one.socket.destroy();
    await undisturbed();
  });

  it("CVE-2020-8551: single bytes that no reader takes take few pieces of memory", async () => {
    const before = await memory();
    const path = "/exec/ns/p/c?command=sleep&command=1000&input=1&output=1";
    const senders: Duplex[] = [];
    for (let count = 0; count < 3; count++) {
      const session = await spdy(path);
      await session.open({ streamType: "error" });
      await session.open({ streamType: "stdout" });
      const streamId = await session.open({ streamType: "stdin" });
      const byte = encodeFrame({ type: "data", streamId, fin: false, data: Buffer.of(1) });
      session.socket.write(Buffer.concat(Array.from({ length: 200_000 }, () => byte)));
      session.send({ type: "ping", id: 1 });
      await session.frame("ping");
      const channel = await rawWebSocket(path);
      const message = webSocketFrame(0x82, Buffer.of(0, 1));
      channel.write(Buffer.concat(Array.from({ length: 20_000 }, () => message)));
      channel.write(webSocketFrame(0x89, Buffer.from("all taken")));
      let answer = "";
      while (!answer.includes("all taken")) answer += String((await once(channel, "data"))[0]);
      senders.push(session.socket, channel);
    }
    const held = (await memory()) - before;
    assert.ok(held < 40 * mebibyte, `${held} bytes`);
    for (const sender of senders) sender.destroy();
  });

  it("CVE-2020-8551: a message that comes in TLS records of one byte takes few pieces of memory", async () => {
    const before = await memory();
    const socket = await rawWebSocket("/exec/ns/p/c?command=sleep&command=1000&input=1&output=1");
    socket.resume();
    socket.write(webSocketFrame(0x82, Buffer.alloc(65_000)).subarray(0, 8));
    for (let count = 0; count < 60_000; count++)
      await new Promise((resolve) => socket.write(Buffer.of(0), resolve));
    await undisturbed();
    const held = (await memory()) - before;
    assert.ok(held < 15 * mebibyte, `${held} bytes`);
    socket.destroy();
  });

  it("CVE-2020-8551: what all streams hold for their readers has a limit, beside which others work", async () => {
    const before = await memory();
    const hoarders: SpdyTestClient[] = [];
    for (let count = 0; count < 40; count++) {
      const hoarder = await spdy("/portForward/ns/p");
      hoarders.push(hoarder);
      for (let request = 0; request < 8; request++) {
        const id = await hoarder.open({ streamType: "data", port: "80", requestID: `${request}` });
        hoarder.data(id, Buffer.alloc(mebibyte - 1));
      }
    }
    await undisturbed();
    // The network's buffers are full, and what the kubelet holds is all that is left.
    await new Promise((resolve) => setTimeout(resolve, 1000));
    const held = (await memory()) - before;
    assert.ok(held < 130 * mebibyte, `${held} bytes`);
    await undisturbed();
    for (const { socket } of hoarders) socket.destroy();
  });

  it("CVE-2020-8551: clients that do not read are held up or cut off, and cost no memory", async () => {
    const before = await memory();
    const path = "/exec/ns/p/c?command=cat&command=/dev/zero&output=1";
    const silent: { destroy: () => void }[] = [];
    for (let count = 0; count < 5; count++) {
      const reader = await webSocket(path);
      reader.socket.pause();
      silent.push({ destroy: () => reader.socket.terminate() });
      const session = await spdy(path);
      await session.open({ streamType: "error" });
      await session.open({ streamType: "stdout" });
      session.socket.pause();
      silent.push(session.socket);
    }
    const flooder = await spdy("/portForward/ns/p");
    flooder.socket.pause();
    const pings = Buffer.concat(
      Array.from({ length: 10_000 }, (_, id) => encodeFrame({ type: "ping", id: 2 * id + 1 })),
    );
    for (let count = 0; count < 50 && !flooder.socket.destroyed; count++) {
      if (flooder.socket.write(pings)) continue;
      // A server that has stopped reading tells anonymous; that it stopped is as good as a close.
      const late = new Promise((resolve) => setTimeout(resolve, 1000).unref());
      await Promise.race([drained(flooder.socket), late]);
    }
    await undisturbed();
    const held = (await memory()) - before;
    assert.ok(held < 150 * mebibyte, `${held} bytes`);
    flooder.socket.destroy();
    for (const each of silent) each.destroy();
  });

  for (const seed of seeds) {
    it(`SPDY sessions that are damaged: answered or closed (seed ${seed})`, async () => {
      const session = await recordedSession();
      await fc.assert(
        fc.asyncProperty(damages(session.length), async (damage) => {
          const { socket } = await spdy("/exec/ns/p/c?command=cat&input=1&output=1");
          socket.resume();
          socket.write(damaged(session, damage));
          socket.end();
          await closed(socket);
        }),
        { seed, numRuns: 40 },
      );
      await undisturbed();
    });

    it(`WebSocket sessions that are damaged: answered or closed (seed ${seed})`, async () => {
      const session = Buffer.concat([
        webSocketFrame(0x82, Buffer.from("\0some input")),
        webSocketFrame(0x89, Buffer.from("ping")),
        webSocketFrame(0x02, Buffer.from("\0in two ")),
        webSocketFrame(0x80, Buffer.from("pieces")),
        webSocketFrame(0x82, Buffer.alloc(300)),
        webSocketFrame(0x82, Buffer.of(255, 0)),
        webSocketFrame(0x88, Buffer.of(3, 232)),
      ]);
      await fc.assert(
        fc.asyncProperty(damages(session.length), async (damage) => {
          const socket = await rawWebSocket("/exec/ns/p/c?command=cat&input=1&output=1");
          socket.resume();
          socket.write(damaged(session, damage));
          socket.end();
          await closed(socket);
        }),
        { seed, numRuns: 40 },
      );
      await undisturbed();
    });
  }

  it("a WebSocket whose client says goodbye and stays is closed all the same", async () => {
    const socket = await rawWebSocket("/exec/ns/p/c?command=sleep&command=1000&output=1");
    socket.allowHalfOpen = true;
    socket.resume();
    socket.write(webSocketFrame(0x88, Buffer.of(3, 232)));
    await once(socket, "end");
    // Nothing more comes from the server; that it let go shows when something is sent to it.
    while (!socket.destroyed) {
      socket.write(webSocketFrame(0x8a, Buffer.alloc(0)));
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    await undisturbed();
  });

  it("WebSocket frames against the protocol end the connection", async () => {
    const unmasked = Buffer.from([0x82, 0x02, 0x00, 0x61]);
    const breaches = [
      unmasked,
      webSocketFrame(0xc2, Buffer.from("\0compressed")),
      webSocketFrame(0x83, Buffer.from("\0unknown opcode")),
      webSocketFrame(0x09, Buffer.from("a ping in pieces")),
      webSocketFrame(0x89, Buffer.alloc(126)),
      webSocketFrame(0x80, Buffer.from("a continuation of nothing")),
      Buffer.from("82ff7fffffffffffffff00000000", "hex"),
      Buffer.concat(Array.from({ length: 20_000 }, () => webSocketFrame(0x02, Buffer.alloc(0)))),
      Buffer.concat(
        Array.from({ length: 300 }, (_, at) => webSocketFrame(at ? 0 : 2, Buffer.of(0))),
      ),
    ];
    for (const breach of breaches) {
      const socket = await rawWebSocket("/exec/ns/p/c?command=cat&input=1&output=1");
      socket.resume();
      socket.write(breach);
      await closed(socket);
    }
    await undisturbed();
  });

  /** Somebody else's exec, which works whatever goes on. */
  async function undisturbed(): Promise<void> {
    const session = await webSocket("/exec/ns/p/c?command=echo&command=fine&output=1");
    await session.closed;
    assert.equal(session.received(1).toString(), "fine\n");
  }

  async function ask(question: TargetQuestion): Promise<TargetAnswer> {
    target.send(question);
    const [answer] = (await once(target, "message")) as [TargetAnswer];
    return answer;
  }

  async function memory(): Promise<number> {
    return (await ask({ ask: "memory" })).memoryBytes ?? 0;
  }

  async function connect(who = client): Promise<tls.TLSSocket> {
    const socket = tls.connect({ port, host, ...who });
    socket.on("error", () => {});
    await once(socket, "secureConnect");
    return socket;
  }

  async function exchange(bytes: string, who = client): Promise<string> {
    const socket = await connect(who);
    const answer = collect(socket);
    socket.write(bytes);
    return await answer;
  }

  async function status(
    path: string,
    options: https.RequestOptions,
    who: ClientTls,
  ): Promise<number | undefined> {
    const request = https.request({ host, port, path, agent: false, ...who, ...options });
    request.end();
    const [response] = (await once(request, "response")) as [
      NodeJS.ReadableStream & { statusCode?: number },
    ];
    response.resume();
    return response.statusCode;
  }

  async function spdy(path: string): Promise<SpdyTestClient> {
    const protocol = path.startsWith("/exec") ? "v4.channel.k8s.io" : "portforward.k8s.io";
    return await SpdyTestClient.connect({ host, port, path, ...client }, protocol);
  }

  async function webSocket(path: string): Promise<WebSocketTestClient> {
    return await WebSocketTestClient.connect(port, path, ["v5.channel.k8s.io"], client);
  }

  async function rawWebSocket(path: string): Promise<tls.TLSSocket> {
    const headers = {
      Connection: "Upgrade",
      Upgrade: "websocket",
      "Sec-WebSocket-Version": "13",
      "Sec-WebSocket-Key": randomBytes(16).toString("base64"),
      "Sec-WebSocket-Protocol": "v5.channel.k8s.io",
    };
    const request = https.request({ host, port, path, agent: false, headers, ...client });
    request.end();
    const [, socket] = (await once(request, "upgrade")) as [unknown, tls.TLSSocket];
    socket.on("error", () => {});
    return socket;
  }
});

const crlf = Buffer.from("\r\n");

/** A whole session of `cat`, as a good client sends it. */
async function recordedSession(): Promise<Buffer> {
  const [near, far] = [new net.Socket(), [] as Buffer[]];
  const write = (bytes: Uint8Array | string): boolean => far.push(Buffer.from(bytes)) > 0;
  near.write = write; // records instead of sending
  const client = new SpdyTestClient(near);
  await client.open({ streamType: "error" });
  const input = await client.open({ streamType: "stdin" });
  await client.open({ streamType: "stdout" });
  client.send({ type: "settings", settings: new Map([[7, 65_536]]) });
  client.data(input, "some input");
  client.send({ type: "ping", id: 1 });
  client.data(input, "", true);
  client.send({ type: "goAway", lastStreamId: 0, status: 0 });
  near.destroy();
  return Buffer.concat(far);
}

/** One change of a session: bytes taken out at a place, others put in. */
interface Damage {
  readonly at: number;
  readonly removed: number;
  readonly added: Uint8Array;
}

function damages(length: number): fc.Arbitrary<readonly Damage[]> {
  return fc.array(
    fc.record({
      at: fc.nat(length),
      removed: fc.oneof(fc.constant(1), fc.nat(20)),
      added: fc.uint8Array({ maxLength: 20 }),
    }),
    { minLength: 1, maxLength: 4 },
  );
}

function damaged(session: Buffer, list: readonly Damage[]): Buffer {
  return list.reduce(
    (bytes, { at, removed, added }) =>
      Buffer.concat([bytes.subarray(0, at), added, bytes.subarray(at + removed)]),
    session,
  );
}

/** A client's WebSocket frame, masked with zeros. */
function webSocketFrame(first: number, payload: Buffer): Buffer {
  const length = payload.length < 126 ? Buffer.of(0x80 | payload.length) : Buffer.alloc(3);
  if (length.length === 3) {
    length.writeUInt8(0x80 | 126);
    length.writeUInt16BE(payload.length, 1);
  }
  return Buffer.concat([Buffer.of(first), length, Buffer.alloc(4), payload]);
}

async function closed(socket: Duplex): Promise<void> {
  if (!socket.closed) await new Promise<void>((resolve) => socket.once("close", resolve));
}

/** Waits until the socket takes more, or nothing ever again. */
async function drained(socket: Duplex): Promise<void> {
  const done = new AbortController();
  const { signal } = done;
  const any = ["drain", "close"].map(async (event) => await once(socket, event, { signal }));
  await Promise.race(any).catch(() => {}); // an error is followed by its close
  done.abort();
  await Promise.allSettled(any);
}

async function collect(socket: Duplex): Promise<string> {
  let text = "";
  socket.on("data", (chunk: Buffer) => (text += chunk.toString("latin1")));
  await closed(socket);
  return text;
}
