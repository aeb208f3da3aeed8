import assert from "node:assert/strict";
import { PassThrough, Writable } from "node:stream";
import { describe, it } from "node:test";
import { growth } from "@kip/base/testing";
import * as fc from "fast-check";
import { channels, frameHeader, FrameParser, FrameWriter, type Channel } from "./framing.ts";

const channel = fc.constantFrom(...Object.values(channels));
const frames = fc.array(fc.record({ channel, payload: fc.uint8Array({ maxLength: 300 }) }));

function parse(parser: FrameParser, chunk: Uint8Array): { channel: Channel; text: string }[] {
  return [...parser.push(Buffer.from(chunk))].map((frame) => ({
    channel: frame.channel,
    text: frame.payload.toString("hex"),
  }));
}

describe("FrameParser", () => {
  it("gives back what was written, however the bytes are cut", () => {
    fc.assert(
      fc.property(frames, fc.array(fc.integer({ min: 1, max: 50 })), (sent, cuts) => {
        const bytes = Buffer.concat(
          sent.flatMap(({ channel, payload }) => [frameHeader(channel, payload.length), payload]),
        );
        const parser = new FrameParser();
        const received = [];
        let at = 0;
        for (const cut of [...cuts, bytes.length]) {
          received.push(...parse(parser, bytes.subarray(at, at + cut)));
          at += cut;
        }
        parser.end();
        const expected = sent.map(({ channel, payload }) => ({
          channel,
          text: Buffer.from(payload).toString("hex"),
        }));
        assert.deepEqual(received, expected);
      }),
    );
  });

  it("fails with one code only, whatever the bytes", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
        const parser = new FrameParser();
        try {
          parse(parser, bytes);
          parser.end();
        } catch (error) {
          assert.equal((error as { code?: string }).code, "AGENT_FRAME_INVALID");
        }
      }),
    );
  });

  it("yields a long frame in parts, so that an unfinished one takes little memory", () => {
    const length = 1024 * 1024;
    const parser = new FrameParser();
    const sizes = [...parser.push(frameHeader(channels.stdout, length))].map(() => 0);
    for (let left = length - 1; left > 0; left -= 16_384)
      for (const { channel, payload } of parser.push(Buffer.alloc(Math.min(left, 16_384)))) {
        assert.equal(channel, channels.stdout);
        sizes.push(payload.length);
      }
    assert.deepEqual(sizes, Array<number>(15).fill(65_536));
    assert.throws(() => parser.end(), { code: "AGENT_FRAME_INVALID" });
    const rest = [...parser.push(Buffer.alloc(1))];
    assert.deepEqual(
      rest.map(({ payload }) => payload.length),
      [65_536],
    );
    parser.end();
  });

  it("takes a frame in single bytes with work that grows with its length, not with its square", async () => {
    const parseInBytes = (length: number): void => {
      const frame = Buffer.concat([frameHeader(channels.stdout, length), Buffer.alloc(length)]);
      const bytes = Buffer.concat(Array<Buffer>(4).fill(frame)); // one takes too little to measure
      const parser = new FrameParser();
      let received = 0;
      for (let at = 0; at < bytes.length; at++)
        for (const { payload } of parser.push(bytes.subarray(at, at + 1)))
          received += payload.length;
      assert.equal(received, 4 * length);
    };
    assert.ok((await growth(parseInBytes, 65_536)) < 40);
  });

  it("rejects a length above the limit before it holds the payload", () => {
    const tooLong = [
      [channels.stdout, 0x00, 0x10, 0x00, 0x01],
      [channels.exit, 0x00, 0x01, 0x00, 0x01],
      [channels.resize, 0x00, 0x01, 0x00, 0x01],
    ];
    for (const header of tooLong)
      assert.throws(() => parse(new FrameParser(), Buffer.from(header)), {
        code: "AGENT_FRAME_INVALID",
      });
  });
});

describe("FrameWriter", () => {
  it("sends the head of a frame and its payload as one piece", async () => {
    const pieces: number[] = [];
    const stream = new Writable({
      write: (chunk: Buffer, _encoding, done) => {
        pieces.push(chunk.length);
        done();
      },
      writev: (chunks, done) => {
        pieces.push(chunks.reduce((sum, { chunk }) => sum + (chunk as Buffer).length, 0));
        done();
      },
    });
    await new FrameWriter(stream).write(channels.stdout, Buffer.from("hello"));
    assert.deepEqual(pieces, [10]);
  });

  it("cuts what is too long for one frame", async () => {
    const stream = new PassThrough({ highWaterMark: 8 * 1024 * 1024 });
    await new FrameWriter(stream).write(channels.stdout, Buffer.alloc(2.5 * 1024 * 1024));
    stream.end();
    const bytes = Buffer.concat((await stream.toArray()) as Buffer[]);
    const sizes = [...new FrameParser().push(bytes)].map(({ payload }) => payload.length / 1024);
    assert.deepEqual(sizes, [1024, 1024, 512]);
  });

  it("waits for room and gives up waiting when the stream is closed", async () => {
    const stuck = new Writable({ highWaterMark: 1, write: () => {} });
    const writing = new FrameWriter(stuck).write(channels.stdout, Buffer.from("hello"));
    let isDone = false;
    void writing.then(() => (isDone = true));
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(isDone, false);
    stuck.destroy();
    await writing;
  });
});
