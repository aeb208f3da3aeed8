// Clients that mean harm, against a kubelet API in a process of its own: each is answered or closed,
// memory stays bounded, and somebody else's exec works all the while.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import net from "node:net";
import { after, before, describe, it } from "node:test";
import * as fc from "fast-check";
import { closed, collect, drained, HostileTarget, webSocketFrame } from "./hostile-target.ts";
import { SpdyTestClient } from "./spdy-test-client.ts";

/** Fixed, so that inputs that once failed are always tried again. */
const seeds = [20_261_121, 1, 7_340_033] as const;
const mebibyte = 1024 * 1024;

describe("kubelet API towards hostile clients", { timeout: 240_000 }, () => {
  let target: HostileTarget;

  before(async () => {
    target = await HostileTarget.start();
  });

  after(async () => {
    await target[Symbol.asyncDispose]();
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
        assert.equal(
          await target.status(path, { method }, target.anonymous),
          401,
          `${method} ${path}`,
        );
      for (const upgrade of ["SPDY/3.1", "websocket", "h2c"]) {
        const headers = { Connection: "Upgrade", Upgrade: upgrade };
        assert.equal(
          await target.status(path, { headers }, target.anonymous),
          401,
          `${upgrade} ${path}`,
        );
      }
    }
    await target.undisturbed();
  });

  it("bytes that are not TLS, and TLS without a request, are closed and hold up no other client", async () => {
    const sockets = [randomBytes(300), "GET /healthz HTTP/1.1\r\n\r\n", "\x16\x03\x01"].map(
      (bytes) => {
        const socket = net.connect({ port: target.port, host: "127.0.0.1" });
        socket.on("error", () => {});
        socket.write(bytes);
        return socket;
      },
    );
    const idle = await Promise.all(Array.from({ length: 50 }, () => target.connect()));
    await target.undisturbed();
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
      ...bombs(100_000).map((bomb) => target.exchange(bomb, target.anonymous)),
      ...bombs(1.1 * mebibyte).map((bomb) => target.exchange(bomb, target.client)),
    ];
    for (const answer of await Promise.all(sent))
      assert.ok(answer === "" || answer.startsWith("HTTP/1.1 431"), answer.slice(0, 80));
    await target.undisturbed();
  });

  it("CVE-2020-8551: bodies are not read: a large one is answered and closed", async () => {
    const before = await target.memory();
    for (const head of ["Content-Length: 1000000000", "Transfer-Encoding: chunked"]) {
      const socket = await target.connect();
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
    assert.ok((await target.memory()) - before < 64 * mebibyte);
    await target.undisturbed();
  });

  for (const seed of seeds) {
    it(`SPDY sessions that are damaged: answered or closed (seed ${seed})`, async () => {
      const session = await recordedSession();
      await fc.assert(
        fc.asyncProperty(damages(session.length), async (damage) => {
          const { socket } = await target.spdy("/exec/ns/p/c?command=cat&input=1&output=1");
          socket.resume();
          socket.write(damaged(session, damage));
          socket.end();
          await closed(socket);
        }),
        { seed, numRuns: 40 },
      );
      await target.undisturbed();
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
          const socket = await target.rawWebSocket("/exec/ns/p/c?command=cat&input=1&output=1");
          socket.resume();
          socket.write(damaged(session, damage));
          socket.end();
          await closed(socket);
        }),
        { seed, numRuns: 40 },
      );
      await target.undisturbed();
    });
  }

  it("a WebSocket whose client says goodbye and stays is closed all the same", async () => {
    const socket = await target.rawWebSocket("/exec/ns/p/c?command=sleep&command=1000&output=1");
    socket.allowHalfOpen = true;
    socket.resume();
    socket.write(webSocketFrame(0x88, Buffer.of(3, 232)));
    await once(socket, "end");
    // Nothing more comes from the server; that it let go shows when something is sent to it.
    while (!socket.destroyed) {
      socket.write(webSocketFrame(0x8a, Buffer.alloc(0)));
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    await target.undisturbed();
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
      const socket = await target.rawWebSocket("/exec/ns/p/c?command=cat&input=1&output=1");
      socket.resume();
      socket.write(breach);
      await closed(socket);
    }
    await target.undisturbed();
  });
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
