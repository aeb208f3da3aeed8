import assert from "node:assert/strict";
import { Readable, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { describe, it } from "node:test";
import { bytesOf } from "./node-objects.ts";
import { mergeSmallPieces } from "./merge-small-pieces.ts";

function merging(): Readable {
  const stream = new Readable({ read: () => {} });
  mergeSmallPieces(stream);
  return stream;
}

async function nextTurn(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

describe("mergeSmallPieces()", () => {
  it("keeps few pieces of a peer that sends single bytes, also one in each turn of the event loop", async () => {
    for (const isSlow of [false, true]) {
      const stream = merging();
      const sent = Buffer.from(Array.from({ length: 50_000 }, (_, index) => index % 251));
      for (const byte of sent) {
        stream.push(Buffer.of(byte));
        if (isSlow) await nextTurn();
      }
      stream.push(null);
      const pieces: Buffer[] = [];
      for await (const piece of bytesOf(stream)) pieces.push(piece);
      assert.deepEqual(Buffer.concat(pieces), sent);
      assert.ok(pieces.length < 10, `${pieces.length} pieces`);
    }
  });

  it("gives a reader that waits each piece at once", async () => {
    const stream = merging();
    const seen: string[] = [];
    const reading = (async () => {
      for await (const piece of bytesOf(stream)) seen.push(piece.toString());
    })();
    for (const text of ["a", "b", "c"]) {
      await nextTurn();
      stream.push(Buffer.from(text));
      await nextTurn();
      assert.equal(seen.at(-1), text);
    }
    stream.push(null);
    await reading;
  });

  it("gives a reader that was slow the rest, although nothing more comes", async () => {
    const ways: readonly ((stream: Readable, take: (piece: Buffer) => void) => unknown)[] = [
      (stream, take) => stream.on("data", take),
      async (stream, take) => {
        for await (const piece of bytesOf(stream)) {
          take(piece);
          await nextTurn();
        }
      },
      async (stream, take) =>
        await pipeline(
          stream,
          new Writable({
            highWaterMark: 1,
            write: (piece: Buffer, _encoding, done) => {
              take(piece);
              setImmediate(done);
            },
          }),
        ),
    ];
    for (const read of ways) {
      const stream = merging();
      for (const text of ["a", "b", "c", "d".repeat(5000), "e", "f"])
        stream.push(Buffer.from(text));
      let text = "";
      void read(stream, (piece) => (text += piece.toString()));
      for (let turn = 0; turn < 20; turn++) await nextTurn();
      assert.equal(text, `abc${"d".repeat(5000)}ef`);
      stream.push(Buffer.from("g"));
      stream.push(Buffer.from("h"));
      for (let turn = 0; turn < 20; turn++) await nextTurn();
      assert.equal(text.slice(-4), "efgh");
      stream.push(null);
    }
  });

  it("asks for no more of a peer whose reader has enough", () => {
    const stream = merging();
    const answers = Array.from({ length: 70_000 }, () => stream.push(Buffer.of(1)));
    assert.equal(answers.indexOf(false), stream.readableHighWaterMark - 1);
    assert.equal(answers.lastIndexOf(true), stream.readableHighWaterMark - 2);
  });
});
