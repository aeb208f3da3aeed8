// Clients that send without end or do not read, against a kubelet API in a process of its own: what it keeps of them stays
// bounded, and somebody else's exec works all the while.
import assert from "node:assert/strict";
import type { Duplex } from "node:stream";
import { after, before, describe, it } from "node:test";
import { encodeFrame } from "../src/kubelet-api/spdy/frames.ts";
import { drained, HostileTarget, webSocketFrame } from "./hostile-target.ts";
import type { SpdyTestClient } from "./spdy-test-client.ts";

const mebibyte = 1024 * 1024;

describe("kubelet API: memory that hostile clients take", { timeout: 240_000 }, () => {
  let target: HostileTarget;

  before(async () => {
    target = await HostileTarget.start();
  });

  after(async () => {
    await target[Symbol.asyncDispose]();
  });

  it("CVE-2020-8551: 10,000 streams half open: held within bounds while others work, then forgotten", async () => {
    const before = await target.memory();
    for (const round of [1, 2, 3]) {
      const hoarders = await Promise.all(
        Array.from({ length: 20 }, async () => await target.spdy("/portForward/ns/p")),
      );
      await Promise.all(
        hoarders.map(async (hoarder) => {
          for (let request = 0; request < 500; request++)
            await hoarder.open({ streamType: "data", port: "80", requestID: `${request}` });
          hoarder.send({ type: "ping", id: 1 });
          await hoarder.frame("ping");
        }),
      );
      const { memoryBytes = 0, heapBytes = 0 } = await target.ask({ ask: "memory" });
      // What the allocator keeps differs from run to run; the objects of a stream are some 4 KB.
      assert.ok(memoryBytes - before < 400 * mebibyte, `${memoryBytes} bytes in round ${round}`);
      assert.ok(heapBytes < 100 * mebibyte, `${heapBytes} bytes of objects in round ${round}`);
      await target.undisturbed();
      for (const { socket } of hoarders) socket.destroy();
      await Promise.all(hoarders.map(async ({ closed }) => await closed));
    }
    const one = await target.spdy("/portForward/ns/p");
    for (let request = 0; request < 10_000; request++)
      await one.open({ streamType: "error", port: "80", requestID: `${request}` });
    one.send({ type: "ping", id: 1 });
    await one.frame("ping");
    const refused = one.frames.filter((frame) => frame.type === "rstStream");
    assert.equal(refused.length, 10_000 - 512);
    one.socket.destroy();
    await target.undisturbed();
  });

  it("CVE-2020-8551: single bytes that no reader takes take few pieces of memory", async () => {
    const before = await target.memory();
    const path = "/exec/ns/p/c?command=sleep&command=1000&input=1&output=1";
    const senders: Duplex[] = [];
    for (let count = 0; count < 3; count++) {
      const session = await target.spdy(path);
      await session.open({ streamType: "error" });
      await session.open({ streamType: "stdout" });
      const streamId = await session.open({ streamType: "stdin" });
      const byte = encodeFrame({ type: "data", streamId, fin: false, data: Buffer.of(1) });
      session.socket.write(Buffer.concat(Array.from({ length: 200_000 }, () => byte)));
      session.send({ type: "ping", id: 1 });
      await session.frame("ping");
      const channel = await target.rawWebSocket(path);
      const message = webSocketFrame(0x82, Buffer.of(0, 1));
      channel.write(Buffer.concat(Array.from({ length: 20_000 }, () => message)));
      channel.write(webSocketFrame(0x89, Buffer.from("all taken")));
      await received(channel, Buffer.from("all taken"));
      senders.push(session.socket, channel);
    }
    const held = (await target.memory()) - before;
    assert.ok(held < 40 * mebibyte, `${held} bytes`);
    for (const sender of senders) sender.destroy();
  });

  it("CVE-2020-8551: a message that comes in TLS records of one byte takes few pieces of memory", async () => {
    const before = await target.memory();
    const socket = await target.rawWebSocket(
      "/exec/ns/p/c?command=sleep&command=1000&input=1&output=1",
    );
    socket.resume();
    socket.write(webSocketFrame(0x82, Buffer.alloc(65_000)).subarray(0, 8));
    for (let count = 0; count < 60_000; count++)
      await new Promise((resolve) => socket.write(Buffer.of(0), resolve));
    await target.undisturbed();
    const held = (await target.memory()) - before;
    assert.ok(held < 15 * mebibyte, `${held} bytes`);
    socket.destroy();
  });

  it("CVE-2020-8551: a head that names a message of 60 MiB is refused at once, and those of 4 MiB while there is room for none", async () => {
    const path = "/exec/ns/p/c?command=sleep&command=1000&input=1&output=1";
    /** A WebSocket that sends only the head of a message of so many bytes. */
    const begin = async (bytes: number): Promise<Duplex> => {
      const socket = await target.rawWebSocket(path);
      const head = Buffer.alloc(14);
      head.writeUInt16BE(0x82ff);
      head.writeBigUInt64BE(BigInt(bytes), 2);
      socket.write(head);
      return socket;
    };
    const tooLong = await begin(60 * mebibyte);
    await received(tooLong, closeFrame(1009));
    tooLong.destroy();
    const hoarders = await Promise.all(Array.from({ length: 12 }, () => begin(4 * mebibyte)));
    const late = await begin(4 * mebibyte);
    await received(late, closeFrame(1013));
    for (const socket of [...hoarders, late]) socket.destroy();
    await target.undisturbed();
    const next = await begin(4 * mebibyte);
    next.write(Buffer.alloc(4 * mebibyte));
    next.write(webSocketFrame(0x89, Buffer.from("all taken")));
    await received(next, Buffer.from("all taken"));
    next.destroy();
  });

  it("CVE-2020-8551: what all streams hold for their readers has a limit, beside which others work", async () => {
    const before = await target.memory();
    const hoarders: SpdyTestClient[] = [];
    for (let count = 0; count < 40; count++) {
      const hoarder = await target.spdy("/portForward/ns/p");
      hoarders.push(hoarder);
      for (let request = 0; request < 8; request++) {
        const id = await hoarder.open({ streamType: "data", port: "80", requestID: `${request}` });
        hoarder.data(id, Buffer.alloc(mebibyte - 1));
      }
    }
    await target.undisturbed();
    // The network's buffers are full, and what the kubelet holds is all that is left.
    await new Promise((resolve) => setTimeout(resolve, 1000));
    const held = (await target.memory()) - before;
    assert.ok(held < 130 * mebibyte, `${held} bytes`);
    await target.undisturbed();
    for (const { socket } of hoarders) socket.destroy();
  });

  it("CVE-2020-8551: clients that do not read are held up or cut off, and cost no memory", async () => {
    const before = await target.memory();
    const path = "/exec/ns/p/c?command=cat&command=/dev/zero&output=1";
    const silent: { destroy: () => void }[] = [];
    for (let count = 0; count < 5; count++) {
      const reader = await target.webSocket(path);
      reader.socket.pause();
      silent.push({ destroy: () => reader.socket.terminate() });
      const session = await target.spdy(path);
      await session.open({ streamType: "error" });
      await session.open({ streamType: "stdout" });
      session.socket.pause();
      silent.push(session.socket);
    }
    const flooder = await target.spdy("/portForward/ns/p");
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
    await target.undisturbed();
    const held = (await target.memory()) - before;
    assert.ok(held < 150 * mebibyte, `${held} bytes`);
    flooder.socket.destroy();
    for (const each of silent) each.destroy();
  });
});

/** What a close frame with this status has, without its reason. */
function closeFrame(status: number): Buffer {
  const code = Buffer.alloc(2);
  code.writeUInt16BE(status);
  return code;
}

/** Waits until these bytes have come. @throws if the connection ends before */
async function received(socket: Duplex, bytes: Buffer): Promise<void> {
  let all = Buffer.alloc(0);
  for await (const piece of socket.iterator({ destroyOnReturn: false })) {
    all = Buffer.concat([all, piece as Buffer]);
    if (all.includes(bytes)) return;
  }
  assert.fail(`the connection ended after ${all.toString("hex")}`);
}
