import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { inLaterTurn } from "./later-turns.ts";

describe("inLaterTurn()", () => {
  it("runs tasks in order, and not in this turn", async () => {
    const seen: string[] = [];
    inLaterTurn(() => {
      seen.push("first");
      inLaterTurn(() => void seen.push("added"));
    });
    inLaterTurn(() => void seen.push("second"));
    await Promise.resolve();
    assert.deepEqual(seen, []);
    await new Promise<void>((resolve) => inLaterTurn(resolve));
    assert.deepEqual(seen.slice(0, 2), ["first", "second"]);
    await new Promise<void>((resolve) => inLaterTurn(resolve));
    assert.deepEqual(seen, ["first", "second", "added"]);
  });

  it("lets other work go on while thousands of tasks wait", async () => {
    const seen: number[] = [];
    for (let n = 0; n < 1000; n++) inLaterTurn(() => void seen.push(n));
    let most = 0;
    for (let before = 0; seen.length < 1000; before = seen.length) {
      await new Promise(setImmediate);
      most = Math.max(most, seen.length - before);
    }
    assert.equal(most, 32);
    assert.deepEqual(seen, [...Array(1000).keys()]);
  });
});
