import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import { gatherFrames, type MessageLimits } from "./gather-frames.ts";

function frame(first: number, payload: Buffer): Buffer {
  const { length } = payload;
  const head = Buffer.alloc(length < 126 ? 2 : length < 65_536 ? 4 : 10);
  head.writeUInt8(first, 0);
  head.writeUInt8(0x80 | (length < 126 ? length : length < 65_536 ? 126 : 127), 1);
  if (head.length === 4) head.writeUInt16BE(length, 2);
  if (head.length === 10) head.writeBigUInt64BE(BigInt(length), 2);
  return Buffer.concat([head, Buffer.alloc(4), payload]);
}

const ample: MessageLimits = {
  maxMessageBytes: 100_000,
  take: () => true,
  give: () => {},
  refuse: () => assert.fail("there is room"),
};

/** A socket, and the pieces that the library gets when it reads the socket. */
function gathering(limits: Partial<MessageLimits> = {}): { socket: Readable; pieces: Buffer[] } {
  const socket = new Readable({ read: () => {} });
  gatherFrames(socket, Buffer.alloc(0), { ...ample, ...limits });
  const pieces: Buffer[] = [];
  socket.on("data", (piece: Buffer) => pieces.push(piece));
  socket.on("error", () => {});
  return { socket, pieces };
}

async function turn(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

describe("gatherFrames()", () => {
  it("passes few pieces on of a message that comes byte by byte", async () => {
    const { socket, pieces } = gathering();
    const sent = frame(0x82, Buffer.alloc(100_000, 7));
    for (const byte of sent) socket.push(Buffer.of(byte));
    await turn();
    assert.deepEqual(Buffer.concat(pieces), sent);
    assert.ok(pieces.length < 10, `${pieces.length} pieces`);
  });

  it("passes every frame on when its last byte has come, however the bytes are cut", async () => {
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 200 }),
      fc.constantFrom(126, 65_535, 65_536, 70_000).map((length) => new Uint8Array(length)),
    );
    const frames = fc.array(fc.tuple(fc.constantFrom(0x82, 0x02, 0x80, 0x89), bytes), {
      minLength: 1,
      maxLength: 6,
    });
    await fc.assert(
      fc.asyncProperty(
        frames,
        fc.infiniteStream(fc.integer({ min: 1, max: 9000 })),
        async (list, cuts) => {
          const { socket, pieces } = gathering();
          const sent = Buffer.concat(
            list.map(([first, payload]) => frame(first, Buffer.from(payload))),
          );
          for (let at = 0; at < sent.length;) {
            const length = cuts.next().value;
            socket.push(sent.subarray(at, at + length));
            at += length;
          }
          await turn();
          assert.deepEqual(Buffer.concat(pieces), sent);
        },
      ),
      { numRuns: 50 },
    );
  });

  it("counts messages from their heads to their ends, and passes nothing on of one without room", async () => {
    let bytes = 0;
    let refusals = 0;
    const { socket, pieces } = gathering({
      take: (more, messageBytes) => {
        if (messageBytes > 1000) return false;
        bytes += more;
        return true;
      },
      give: (less) => void (bytes -= less),
      refuse: () => (refusals += 1),
    });
    socket.push(frame(0x02, Buffer.alloc(300)));
    assert.equal(bytes, 300);
    socket.push(frame(0x89, Buffer.alloc(10)));
    socket.push(frame(0x00, Buffer.alloc(200)).subarray(0, 20));
    assert.equal(bytes, 500);
    socket.push(Buffer.concat([Buffer.alloc(188), frame(0x80, Buffer.alloc(100))]));
    assert.equal(bytes, 0);
    socket.push(frame(0x82, Buffer.alloc(900)).subarray(0, 20));
    assert.equal(bytes, 900);
    socket.push(Buffer.concat([Buffer.alloc(888), frame(0x82, Buffer.alloc(1001)).subarray(0, 8)]));
    const passed = pieces.length;
    socket.push(Buffer.alloc(50_000));
    assert.deepEqual([refusals, pieces.length - passed], [1, 0]);
    socket.destroy();
    await turn();
    assert.equal(bytes, 0);
  });

  it("leaves a message that is longer than any to the library, and counts none of it", async () => {
    const { socket, pieces } = gathering({ take: () => assert.fail("it counts the message") });
    const head = frame(0x82, Buffer.alloc(100_001)).subarray(0, 14);
    socket.push(head);
    await turn();
    assert.deepEqual(Buffer.concat(pieces), head);
  });

  it("counts nothing of a connection that has closed before", async () => {
    const socket = new Readable({ read: () => {} });
    socket.destroy();
    await turn();
    const take = (): boolean => assert.fail("nothing would give it back");
    gatherFrames(socket, frame(0x82, Buffer.alloc(900)).subarray(0, 20), { ...ample, take });
  });
});
