import assert from "node:assert/strict";
import { PassThrough, Writable } from "node:stream";
import { describe, it } from "node:test";
import { channels, FrameParser, FrameWriter } from "@kip/agent-api";
import { framedOutput, mergedPieces } from "./small-pieces.ts";

const lines = Array.from({ length: 1000 }, (_, index) => `${index}\n`);
const never = new AbortController().signal;

/** A connection, and the frames that were written to it. */
function connection(): { writer: FrameWriter; payloads: Buffer[] } {
  const payloads: Buffer[] = [];
  const parser = new FrameParser();
  const stream = new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      for (const { payload } of parser.push(chunk)) payloads.push(payload);
      done();
    },
  });
  return { writer: new FrameWriter(stream), payloads };
}

describe("framedOutput()", () => {
  it("sends few pieces of a program that prints each line by itself, the first at once", async () => {
    const { writer, payloads } = connection();
    const output = framedOutput(writer, channels.stdout, never);
    const begin = performance.now();
    output.write(lines[0]);
    assert.deepEqual(String(payloads), lines[0]);
    for (const line of lines.slice(1)) {
      await new Promise((resolve) => setImmediate(resolve));
      output.write(line);
    }
    await new Promise<void>((resolve) => output.end(resolve));
    assert.equal(Buffer.concat(payloads).toString(), lines.join(""));
    const most = 52 + performance.now() - begin;
    assert.ok(payloads.length < most, `${payloads.length} pieces in ${most} ms`);
  });

  it("does not wait between pieces that kip does not count", async () => {
    const { writer, payloads } = connection();
    const output = framedOutput(writer, channels.stdout, never);
    const begin = performance.now();
    for (let count = 0; count < 1000; count++)
      await new Promise<void>((resolve) => output.write(Buffer.alloc(512), () => resolve()));
    assert.equal(Buffer.concat(payloads).length, 512 * 1000);
    assert.ok(performance.now() - begin < 800);
  });
});

describe("mergedPieces()", () => {
  it("merges what a server sends in many pieces, and loses nothing", async () => {
    const source = new PassThrough();
    const pieces: Buffer[] = [];
    const begin = performance.now();
    const reading = (async () => {
      for await (const piece of mergedPieces(source, never)) pieces.push(piece);
    })();
    for (const line of lines) {
      await new Promise((resolve) => setImmediate(resolve));
      source.write(line);
    }
    source.end();
    await reading;
    assert.equal(Buffer.concat(pieces).toString(), lines.join(""));
    const most = 52 + performance.now() - begin;
    assert.ok(pieces.length < most, `${pieces.length} pieces in ${most} ms`);
  });

  it("has all streams of the agent keep to what kip takes of a cell", async () => {
    const begin = performance.now();
    let count = 0;
    const sources = lines.slice(0, 20).map(() => new PassThrough());
    const readings = sources.map(async (source) => {
      for await (const piece of mergedPieces(source, never)) count += Math.min(1, piece.length);
    });
    for (const line of lines.slice(0, 200)) {
      await new Promise((resolve) => setImmediate(resolve));
      for (const source of sources) source.write(line);
    }
    for (const source of sources) source.end();
    await Promise.all(readings);
    const most = 500 + sources.length + 3 * (performance.now() - begin);
    assert.ok(count < most, `${count} pieces, at most ${most}`);
  });
});
