import assert from "node:assert/strict";
import { Readable, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { describe, it } from "node:test";
import * as fc from "fast-check";
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

  it("passes nothing on while its pace says to wait, asks for no more, and loses nothing", async () => {
    let asked = 0;
    let wait: PromiseWithResolvers<void> | undefined;
    const pace = { received: () => {}, wait: () => wait?.promise };
    const stream = new Readable({ read: () => void (asked += 1) });
    mergeSmallPieces(stream, pace);
    const seen: string[] = [];
    stream.on("data", (piece: Buffer) => seen.push(piece.toString()));
    await nextTurn();
    assert.equal(stream.push(Buffer.from("a")), true);
    wait = Promise.withResolvers();
    assert.equal(stream.push(Buffer.from("b")), false);
    await nextTurn();
    asked = 0;
    for (const text of ["c", "d", "e"]) assert.equal(stream.push(Buffer.from(text)), false);
    await nextTurn();
    assert.deepEqual([seen, asked], [["a"], 0]);
    const ended = wait;
    wait = undefined;
    ended.resolve();
    await nextTurn();
    assert.deepEqual(seen, ["a", "bcde"]);
    assert.ok(asked > 0);
    assert.equal(stream.push(Buffer.from("f")), true);
    assert.deepEqual(seen, ["a", "bcde", "f"]);
  });

  it("loses and reorders nothing, whatever its pace, its reader and its pieces", async () => {
    const waits = fc.infiniteStream(fc.nat(6));
    const pieces = fc.array(fc.constantFrom(1, 3, 300, 5000, 20_000), { maxLength: 200 });
    await fc.assert(
      fc.asyncProperty(pieces, waits, fc.boolean(), async (lengths, turns, isObedient) => {
        const take = (): number => turns.next().value;
        const pace = { received: () => {}, wait: () => (take() > 2 ? nextTurn() : undefined) };
        const sent = lengths.map((length, index) => Buffer.alloc(length, index));
        let [next, isWanted] = [0, false];
        const stream = new Readable({ read: () => void (isWanted = true) });
        mergeSmallPieces(stream, pace);
        const read: Buffer[] = [];
        const reading = (async () => {
          for await (const piece of bytesOf(stream)) {
            read.push(piece);
            if (take() === 0) await nextTurn();
          }
        })();
        // Like a socket, continues until push() returns false or slightly longer, and then waits for a read.
        for (let idle = 0; next < sent.length;) {
          if (isWanted || (!isObedient && take() === 0))
            isWanted = stream.push(sent[next++] ?? null);
          if (!isWanted) {
            idle += 1;
            assert.ok(idle < 10_000, "it is never asked again");
            await nextTurn();
          }
        }
        stream.push(null);
        await reading;
        assert.ok(Buffer.concat(read).equals(Buffer.concat(sent)));
      }),
      { numRuns: 50 },
    );
  });

  it("stays quiet when it is destroyed while it waits", async () => {
    const wait = Promise.withResolvers<void>();
    const stream = new Readable({ read: () => {} });
    mergeSmallPieces(stream, { received: () => {}, wait: () => wait.promise });
    stream.push(Buffer.from("a"));
    stream.push(Buffer.from("b"));
    stream.destroy();
    wait.resolve();
    await nextTurn();
    assert.equal(stream.destroyed, true);
  });
});
