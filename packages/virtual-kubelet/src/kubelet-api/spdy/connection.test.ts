import assert from "node:assert/strict";
import { duplexPair, type Duplex } from "node:stream";
import { describe, it } from "node:test";
import { AsyncQueue, silentLogger, systemClock } from "@kip/base";
import { ManualClock } from "@kip/testing";
import * as fc from "fast-check";
import { SpdyTestClient } from "../../../test/spdy-test-client.ts";
import type { RemoteStream } from "../transport/remote-streams.ts";
import { Turns } from "../transport/turns.ts";
import { SpdyConnection, type SpdyConnectionOptions } from "./connection.ts";
import { noLingerClock } from "../../../test/no-linger-clock.ts";
import { ampleMemory } from "../../../test/ample-memory.ts";

function connect(options: Partial<SpdyConnectionOptions> = {}): {
  server: SpdyConnection;
  client: SpdyTestClient;
  serverSocket: Duplex;
} {
  const [serverSocket, clientSocket] = duplexPair();
  const server = new SpdyConnection(serverSocket, Buffer.alloc(0), {
    turns: new Turns(),
    memory: ampleMemory(),
    streamsPerConnection: 4,
    streamHeaderBytes: 4096,
    streamBufferBytes: 64 * 1024,
    idleTimeoutMs: 3_600_000,
    clock: systemClock,
    logger: silentLogger,
    ...options,
  });
  return { server, client: new SpdyTestClient(clientSocket), serverSocket };
}

async function nextStream(server: SpdyConnection): Promise<RemoteStream> {
  const [stream] = await streams(server, 1);
  assert.ok(stream);
  return stream;
}

async function streams(server: SpdyConnection, count: number): Promise<RemoteStream[]> {
  const found: RemoteStream[] = [];
  const iterator = server.opened[Symbol.asyncIterator]();
  while (found.length < count) {
    const next = await iterator.next();
    if (next.done === true) break;
    found.push(next.value);
  }
  return found;
}

async function closing(stream: Duplex): Promise<void> {
  if (stream.closed) return;
  await new Promise<void>((resolve) => stream.once("close", resolve));
}

describe("SpdyConnection", () => {
  it("takes a client's next frame when its turn has come", async () => {
    const asked = new AsyncQueue<() => void>();
    const pass = async (): Promise<void> => await new Promise((resolve) => asked.push(resolve));
    const { client, serverSocket } = connect({ turns: { pass } });
    for (const id of [1, 3, 5]) client.send({ type: "ping", id });
    const pongs = (): number => client.frames.filter(({ type }) => type === "ping").length;
    let expected = 0;
    for await (const goOn of asked) {
      expected += 1;
      for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
      assert.equal(pongs(), expected);
      goOn();
      if (expected === 3) break;
    }
    serverSocket.destroy();
  });

  it("opens streams with their headers and carries bytes both ways, with ends of their own", async () => {
    const { server, client } = connect();
    const id = await client.open({ streamType: "data", port: "80" });
    const stream = await nextStream(server);
    stream.accept();
    await client.frame("synReply", id);
    assert.equal(stream.headers.get("streamtype"), "data");

    client.data(id, "to the server", true);
    const read = await stream.duplex.toArray();
    assert.equal(Buffer.concat(read as Buffer[]).toString(), "to the server");
    stream.duplex.write("back ");
    stream.duplex.end("again");
    assert.equal((await client.ended(id)).toString(), "back again");
    client.socket.destroy();
  });

  it("says nothing before the client does, then what window it has", async () => {
    const { client } = connect();
    assert.equal(client.frames.length, 0);
    client.send({ type: "ping", id: 1 });
    await client.frame("ping");
    assert.deepEqual(client.frames, [
      { type: "settings", settings: new Map([[7, 65_536]]) },
      { type: "ping", id: 1 },
    ]);
    client.socket.destroy();
  });

  it("reads no more than a buffer of a stream without a reader, then goes on", async () => {
    const { server, client, serverSocket } = connect();
    const id = await client.open({});
    const { duplex } = await nextStream(server);
    for (let count = 0; count < 32; count++) client.data(id, Buffer.alloc(16 * 1024, count));
    client.data(id, "", true);
    await new Promise(setImmediate);
    assert.ok(duplex.readableLength <= 64 * 1024 + 16 * 1024);
    assert.ok(client.socket.writableLength > 0, "the client is held up");
    let total = 0;
    for await (const chunk of duplex) total += (chunk as Buffer).length;
    assert.equal(total, 32 * 16 * 1024);
    assert.ok(client.frames.some((frame) => frame.type === "windowUpdate"));
    serverSocket.destroy();
  });

  it("notices a client that leaves while a stream is full", async () => {
    const { server, client, serverSocket } = connect();
    const id = await client.open({});
    const { duplex } = await nextStream(server);
    for (let count = 0; count < 32; count++) client.data(id, Buffer.alloc(16 * 1024, count));
    await new Promise(setImmediate);
    const closed = closing(duplex);
    serverSocket.destroy(); // like a failed write
    await closed;
    assert.ok(server.gone.aborted);
  });

  it("keeps to the client's window once the client has shown one", async () => {
    const { server, client } = connect();
    client.send({ type: "settings", settings: new Map([[7, 1000]]) });
    const id = await client.open({});
    const stream = await nextStream(server);
    stream.accept();
    stream.duplex.end(Buffer.alloc(2500, 1));
    while (client.received(id).length < 1000) await new Promise(setImmediate);
    await new Promise(setImmediate);
    assert.equal(client.received(id).length, 1000);
    client.send({ type: "windowUpdate", streamId: id, delta: 1500 });
    assert.equal((await client.ended(id)).length, 2500);
    client.socket.destroy();
  });

  it("sends without waiting to a client that keeps no windows", async () => {
    const { server, client } = connect();
    const id = await client.open({});
    const stream = await nextStream(server);
    stream.accept();
    stream.duplex.end(Buffer.alloc(1_000_000, 1));
    assert.equal((await client.ended(id)).length, 1_000_000);
    client.socket.destroy();
  });

  it("lets streams that write at the same moment wait for each other", async () => {
    const count = 60;
    const { server, client, serverSocket } = connect({ streamsPerConnection: count });
    const ids: number[] = [];
    for (let index = 0; index < count; index++) ids.push(await client.open({}));
    const opened = await streams(server, count);
    let most = 0;
    const write = serverSocket.write.bind(serverSocket) as (bytes: Buffer) => boolean;
    serverSocket.write = (bytes: Buffer) => {
      const isTaken = write(bytes);
      most = Math.max(most, serverSocket.writableLength);
      return isTaken;
    };
    for (const { duplex } of opened) duplex.end(Buffer.alloc(100_000, 1));
    for (const id of ids) assert.equal((await client.ended(id)).length, 100_000);
    assert.ok(most < 200_000, `${most} bytes were waiting`);
    client.socket.destroy();
  });

  it("refuses streams above its limit, and takes them again when others are closed", async () => {
    const { server, client } = connect({ streamsPerConnection: 2 });
    const ids = [await client.open({}), await client.open({}), await client.open({})];
    const refused = await client.frame("rstStream", ids[2]);
    assert.ok(refused.type === "rstStream" && refused.status === 3);
    const [first] = await streams(server, 2);
    client.send({ type: "rstStream", streamId: ids[0] ?? 0, status: 5 });
    assert.ok(first);
    await closing(first.duplex);
    const id = await client.open({});
    client.send({ type: "ping", id: 3 });
    await client.frame("ping");
    assert.ok(!client.frames.some((frame) => frame.type === "rstStream" && frame.streamId === id));
    client.socket.destroy();
  });

  it("says goodbye, drops what still comes and does not report the client as gone", async () => {
    const { server, client } = connect();
    const id = await client.open({});
    await nextStream(server);
    const closing = server.close();
    await client.ended(id);
    await client.frame("goAway");
    client.data(id, Buffer.alloc(1_000_000));
    client.data(id, "", true);
    client.socket.end();
    await closing;
    assert.equal(server.gone.aborted, false);
  });

  it("does not hurry a client that reads the last bytes late", async () => {
    const [serverSocket, far] = duplexPair();
    const [near, clientSocket] = duplexPair();
    near.pipe(far); // data from the client arrives; data to the client waits
    const server = new SpdyConnection(serverSocket, Buffer.alloc(0), {
      turns: new Turns(),
      memory: ampleMemory(),
      streamsPerConnection: 4,
      streamHeaderBytes: 4096,
      streamBufferBytes: 64 * 1024,
      idleTimeoutMs: 3_600_000,
      clock: noLingerClock,
      logger: silentLogger,
    });
    const client = new SpdyTestClient(clientSocket);
    const id = await client.open({});
    const stream = await nextStream(server);
    stream.accept();
    stream.duplex.write(Buffer.alloc(60_000, 1)); // almost as much as the pair can buffer
    for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate);
    stream.duplex.end(Buffer.alloc(20_000, 1));
    const closing = server.close();
    for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate);
    assert.ok(!serverSocket.destroyed);
    far.pipe(near);
    assert.equal((await client.ended(id)).length, 80_000);
    await client.frame("goAway");
    client.socket.destroy();
    near.destroy();
    far.destroy();
    await closing;
  });

  it("closes a connection whose client is silent too long", async () => {
    const { server, client } = connect({ idleTimeoutMs: 1 });
    await client.closed;
    assert.ok(server.gone.aborted);
  });

  it("keeps a connection that has output for a silent client, as a kubelet does", async () => {
    const clock = new ManualClock();
    const { server, client } = connect({ idleTimeoutMs: 60_000, clock });
    await client.open({});
    const { duplex } = await nextStream(server);
    for (let count = 0; count < 5; count++) {
      await clock.advance(40_000);
      duplex.write("output");
    }
    assert.equal(server.gone.aborted, false);
    await clock.advance(60_000);
    await client.closed;
  });

  it("answers a breach of the protocol with GOAWAY and closes", async () => {
    const breaches: readonly ((client: SpdyTestClient) => Promise<void> | void)[] = [
      (client) => client.data(1, "never opened"),
      (client) => client.send({ type: "synReply", streamId: 2, fin: false, headerBlock: zero }),
      (client) => void client.socket.write(Buffer.from("8003000100ffffff", "hex")),
      async (client) => {
        const headerBlock = await client.compress(Buffer.alloc(4));
        const frame = {
          type: "synStream",
          fin: false,
          unidirectional: false,
          headerBlock,
        } as const;
        client.send({ ...frame, streamId: 2 });
      },
      async (client) => {
        const headerBlock = await client.compress(Buffer.alloc(100_000));
        const frame = {
          type: "synStream",
          fin: false,
          unidirectional: false,
          headerBlock,
        } as const;
        client.send({ ...frame, streamId: 1 });
      },
    ];
    const zero = Buffer.alloc(0);
    for (const breach of breaches) {
      const { server, client } = connect();
      await breach(client);
      const goAway = await client.frame("goAway");
      assert.ok(goAway.type === "goAway" && goAway.status === 1);
      await client.closed;
      assert.ok(server.gone.aborted);
    }
  });

  it("resets one stream that sends after its end, and keeps the others", async () => {
    const { server, client } = connect();
    const [bad, good] = [await client.open({}), await client.open({})];
    client.data(bad, "x", true);
    client.data(bad, "y");
    const reset = await client.frame("rstStream", bad);
    assert.ok(reset.type === "rstStream" && reset.status === 9);
    const [, stream] = await streams(server, 2);
    client.data(good, "z", true);
    assert.equal(Buffer.concat((await stream?.duplex.toArray()) as Buffer[]).toString(), "z");
    client.socket.destroy();
  });

  it("survives any bytes a client sends", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.oneof(
            fc.uint8Array({ maxLength: 100 }).map((bytes) => Buffer.from(bytes)),
            fc
              .tuple(fc.integer({ min: 1, max: 10 }), fc.uint8Array({ maxLength: 40 }))
              .map(([code, bytes]) => controlFrame(code, Buffer.from(bytes))),
          ),
          { maxLength: 8 },
        ),
        async (pieces) => {
          const { server, client } = connect();
          const taking = (async () => {
            for await (const stream of server.opened) stream.accept();
          })();
          for (const piece of pieces) client.socket.write(piece);
          client.socket.end();
          await taking;
          await client.closed;
          assert.ok(server.gone.aborted);
        },
      ),
      { seed: 20_261_121, numRuns: 300 },
    );
  });
});

function controlFrame(code: number, payload: Buffer): Buffer {
  const header = Buffer.from("8003000000000000", "hex");
  header.writeUInt8(code, 3);
  header.writeUInt8(payload.length, 7);
  return Buffer.concat([header, payload]);
}
