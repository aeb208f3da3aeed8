import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Turns } from "./turns.ts";

/** Works in small pieces that never leave time for the event loop by themselves. */
async function work(turns: Turns, isOver: () => boolean, onPiece: () => void): Promise<void> {
  while (!isOver()) {
    const end = performance.now() + 0.2;
    while (performance.now() < end);
    onPiece();
    await (turns.pass() ?? Promise.resolve());
  }
}

describe("Turns", () => {
  it("CVE-2020-8551: lets everything else go on between the pieces of many streams, and each stream, too", async () => {
    const turns = new Turns();
    const pieces = Array.from({ length: 50 }, () => 0);
    let turnCount = 0;
    const isOver = (): boolean => turnCount >= 100;
    const count = (): void => {
      turnCount += 1;
      if (!isOver()) setImmediate(count);
    };
    setImmediate(count);
    await Promise.all(
      pieces.map(async (_, index) => {
        await work(turns, isOver, () => {
          pieces[index] = (pieces[index] ?? 0) + 1;
        });
      }),
    );
    assert.ok(Math.min(...pieces) > 0, `${pieces.join(" ")} pieces`);
  });

  it("lets a stream go on while the turn has time left", () => {
    const turns = new Turns();
    assert.equal(turns.pass(), undefined);
    assert.equal(turns.pass(), undefined);
  });
});
