import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import { VirtualKubeletError } from "../../errors.ts";
import { encodeFrame, FrameParser, type Frame } from "./frames.ts";

const id = fc.integer({ min: 1, max: 0x7fffffff });
const word = fc.integer({ min: 0, max: 0xffffffff });
const block = fc.uint8Array({ maxLength: 50 }).map((bytes) => Buffer.from(bytes));
const fin = fc.boolean();
const frames: fc.Arbitrary<Exclude<Frame, { type: "unknown" }>> = fc.oneof(
  fc.record({
    type: fc.constant("synStream" as const),
    streamId: id,
    fin,
    unidirectional: fc.boolean(),
    headerBlock: block,
  }),
  fc.record({
    type: fc.constantFrom("synReply" as const, "headers" as const),
    streamId: id,
    fin,
    headerBlock: block,
  }),
  fc.record({ type: fc.constant("rstStream" as const), streamId: id, status: word }),
  fc.record({
    type: fc.constant("settings" as const),
    settings: fc
      .array(fc.tuple(fc.integer({ min: 1, max: 0xffffff }), word), { maxLength: 5 })
      .map((entries) => new Map(entries)),
  }),
  fc.record({ type: fc.constant("ping" as const), id: word }),
  fc.record({ type: fc.constant("goAway" as const), lastStreamId: id, status: word }),
  fc.record({
    type: fc.constant("windowUpdate" as const),
    streamId: id,
    delta: fc.integer({ min: 0, max: 0x7fffffff }),
  }),
  fc.record({ type: fc.constant("data" as const), streamId: id, fin, data: block }),
);

function parse(bytes: Buffer, cuts: readonly number[], maxBytes = 1000): Frame[] {
  const parser = new FrameParser(maxBytes);
  const parsed: Frame[] = [];
  let from = 0;
  for (const cut of [...cuts, bytes.length]) {
    parsed.push(...parser.push(bytes.subarray(from, cut)));
    from = cut;
  }
  return parsed;
}

/** Joins the pieces of each data frame. Drops pieces without data or end. */
function join(parsed: readonly Frame[]): Frame[] {
  const joined: Frame[] = [];
  for (const frame of parsed) {
    const last = joined.at(-1);
    if (frame.type !== "data") joined.push({ ...frame });
    else if (last?.type === "data" && last.streamId === frame.streamId && !last.fin)
      joined[joined.length - 1] = { ...frame, data: Buffer.concat([last.data, frame.data]) };
    else if (frame.fin || frame.data.length > 0) joined.push({ ...frame });
  }
  return joined;
}

describe("FrameParser.push()", () => {
  it("reads back what encodeFrame wrote, however it is cut", () => {
    fc.assert(
      fc.property(fc.array(frames, { maxLength: 10 }), fc.array(fc.nat(2000)), (sent, numbers) => {
        const bytes = Buffer.concat(sent.map(encodeFrame));
        const cuts = numbers.filter((cut) => cut <= bytes.length).sort((a, b) => a - b);
        assert.deepEqual(join(parse(bytes, cuts)), join(sent));
      }),
    );
  });

  it("passes the bytes of a data frame on before the frame is complete", () => {
    const parser = new FrameParser(100);
    const header = Buffer.from("0000000101ffffff", "hex");
    assert.deepEqual([...parser.push(header)], []);
    const [frame] = [...parser.push(Buffer.from("abc"))];
    assert.deepEqual(frame, { type: "data", streamId: 1, fin: false, data: Buffer.from("abc") });
  });

  it("ignores control frames of unknown types", () => {
    assert.deepEqual(parse(Buffer.from("80030063000000020102", "hex"), []), [
      { type: "unknown", code: 99 },
    ]);
  });

  it("rejects frames that are too long, too short, of no stream or of another version", () => {
    for (const hex of [
      "80030001000003e9", // longer than this parser accepts
      "8003000100000009000000010000000000", // SYN_STREAM that is too short for its fields
      "80020006000000040000000100000000", // SPDY/2
      "80030003000000080000000000000001", // RST_STREAM of stream 0
      "0000000000000001", // data of stream 0
      "800300040000000400000001", // SETTINGS without one of its entries
    ]) {
      assert.throws(
        () => parse(Buffer.from(hex, "hex"), []),
        (error) => VirtualKubeletError.is(error, "VK_SPDY_PROTOCOL"),
        hex,
      );
    }
  });

  it("reads or rejects any bytes", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), fc.boolean(), (bytes, isControl) => {
        const input = Buffer.from(bytes);
        if (isControl && input.length > 4) input.write("8003000", "hex");
        try {
          parse(input, [], 200);
        } catch (error) {
          assert.ok(VirtualKubeletError.is(error, "VK_SPDY_PROTOCOL"));
        }
      }),
      { seed: 20_261_121, numRuns: 1000 },
    );
  });
});
