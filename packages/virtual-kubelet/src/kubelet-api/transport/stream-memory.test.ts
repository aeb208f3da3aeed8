import assert from "node:assert/strict";
import { Duplex } from "node:stream";
import { describe, it } from "node:test";
import { StreamMemory, type ConnectionMemory } from "./stream-memory.ts";

const kibibyte = 1024;
const memory = (): StreamMemory =>
  new StreamMemory({
    connectionBytes: 256 * kibibyte,
    allBytes: 1024 * kibibyte,
    allStreams: 20,
  });

/** Opens a stream of the connection that buffers this many bytes for its reader. */
function open(connection: ConnectionMemory, bytes = 0): Duplex {
  const stream = new Duplex({
    read: () => {},
    write: (_piece, _encoding, done) => done(),
    readableHighWaterMark: 1024 * kibibyte,
  });
  connection.watch(stream);
  if (bytes > 0) stream.push(Buffer.alloc(bytes));
  return stream;
}

async function nextTurn(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

describe("StreamMemory", () => {
  it("lets a connection wait whose streams hold too much together, until readers have taken enough", async () => {
    const connection = memory().connection();
    const first = open(connection, 100 * kibibyte);
    assert.equal(connection.room(), undefined);
    open(connection, 60 * kibibyte);
    let isFree = false;
    void connection.room()?.then(() => (isFree = true));
    await nextTurn();
    assert.equal(isFree, false);
    first.read();
    await nextTurn();
    assert.equal(isFree, true);
    assert.equal(connection.room(), undefined);
  });

  it("counts what small pieces hold, and nothing of a stream that is closed", async () => {
    const connection = memory().connection();
    const stream = open(connection);
    for (let piece = 0; piece < 150 * kibibyte; piece++) stream.push(Buffer.of(1));
    const room = connection.room();
    assert.ok(room);
    stream.destroy();
    await room;
    assert.equal(connection.room(), undefined);
  });

  it("leaves 64 KiB to each connection, however much others hold", () => {
    const all = memory();
    for (let count = 0; count < 20; count++) open(all.connection(), 100 * kibibyte);
    const connection = all.connection();
    const stream = open(connection, 64 * kibibyte);
    assert.equal(connection.room(), undefined);
    stream.push(Buffer.alloc(kibibyte));
    assert.ok(connection.room());
  });

  it("bounds the messages that have begun to come, except short ones", () => {
    const all = memory();
    const connection = all.connection();
    assert.equal(connection.take(129 * kibibyte, 129 * kibibyte), false);
    assert.equal(connection.take(128 * kibibyte, 128 * kibibyte), true);
    assert.equal(connection.take(100 * kibibyte, 228 * kibibyte), false);
    for (let count = 0; count < 20; count++) all.connection().take(64 * kibibyte, 64 * kibibyte);
    assert.equal(all.connection().take(65 * kibibyte, 65 * kibibyte), false);
    assert.equal(all.connection().take(64 * kibibyte, 64 * kibibyte), true);
    for (let count = 0; count < 21; count++) connection.give(64 * kibibyte);
    assert.equal(all.connection().take(100 * kibibyte, 100 * kibibyte), true);
  });

  it("lets a connection go on when others have given their room back, though its own readers take nothing", async () => {
    const all = memory();
    const others = Array.from({ length: 12 }, () => open(all.connection(), 80 * kibibyte));
    const connection = all.connection();
    open(connection, 70 * kibibyte);
    const room = connection.room();
    assert.ok(room);
    let isFree = false;
    void room.then(() => (isFree = true));
    await nextTurn();
    assert.equal(isFree, false);
    for (const stream of others) stream.destroy();
    for (let turn = 0; turn < 3; turn++) await nextTurn();
    assert.equal(isFree, true);
    assert.equal(connection.room(), undefined);
  });

  it("bounds the streams of all connections, and leaves 8 to each", async () => {
    const all = memory();
    const greedy = all.connection();
    assert.equal(greedy.hasRoomFor(20), true);
    assert.equal(greedy.hasRoomFor(21), false);
    const streams = Array.from({ length: 20 }, () => open(greedy));
    assert.equal(greedy.hasRoomFor(1), false);
    assert.equal(all.connection().hasRoomFor(8), true);
    assert.equal(all.connection().hasRoomFor(9), false);
    streams[0]?.destroy();
    await nextTurn();
    assert.equal(greedy.hasRoomFor(1), true);
  });
});
