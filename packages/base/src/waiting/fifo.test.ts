import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Fifo } from "./fifo.ts";

describe("Fifo", () => {
  it("returns its items in order, however they come and go", () => {
    const queue = new Fifo<number>();
    const expected: number[] = [];
    for (let next = 0; next < 10_000; next++) {
      queue.push(next);
      expected.push(next);
      const taken = Math.floor(Math.random() * 3);
      for (let n = 0; n < taken; n++) assert.equal(queue.shift(), expected.shift());
      assert.equal(queue.length, expected.length);
      assert.equal(queue.first, expected[0]);
    }
  });
});
