import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import { PriorityQueue } from "./priority-queue.ts";

describe("PriorityQueue", () => {
  it("knows the least of what is set, whatever was set and removed before", () => {
    const change = fc.record({ name: fc.nat({ max: 9 }), rank: fc.option(fc.nat({ max: 4 })) });
    fc.assert(
      fc.property(fc.array(change, { maxLength: 200 }), (changes) => {
        const least = new PriorityQueue();
        const known = new Map<string, string>();
        for (const { name, rank } of changes) {
          least.set(`${name}`, rank === null ? undefined : `${rank}`);
          // What gets another rank comes behind others of that rank.
          if (rank === null || known.get(`${name}`) !== `${rank}`) known.delete(`${name}`);
          if (rank !== null) known.set(`${name}`, `${rank}`);
          const [first] = [...known].toSorted(([, a], [, b]) => Number(a) - Number(b));
          assert.equal(least.least, first?.[0]);
          assert.equal(least.size, known.size);
        }
      }),
    );
  });

  it("lets thousands go in their order in a short time", () => {
    const least = new PriorityQueue();
    const names = Array.from({ length: 40_000 }, (_, i) => `${i + 100_000}`);
    for (const name of names) least.set(name, name);
    const started = process.threadCpuUsage();
    for (const name of names) {
      assert.equal(least.least, name);
      least.set(name, undefined);
    }
    // If each looked at all that are left, more than four seconds.
    assert.ok(process.threadCpuUsage(started).user / 1000 < 1000);
  });
});
