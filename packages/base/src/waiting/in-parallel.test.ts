import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import { describe, it } from "node:test";
import { inParallel } from "./in-parallel.ts";

describe("inParallel", () => {
  it("calls for each item once, and no more at a time than the limit", async () => {
    const seen: number[] = [];
    let [running, most] = [0, 0];
    await inParallel(Array(20).keys(), 3, async (item) => {
      seen.push(item);
      most = Math.max(most, ++running);
      await turn();
      running -= 1;
    });
    assert.deepEqual(seen, [...Array(20).keys()]);
    assert.equal(most, 3);
  });

  it("takes no item before a call can begin", async () => {
    let taken = 0;
    function* items(): Generator<number> {
      while (true) yield ++taken;
    }
    const stop = new Error("stop");
    const work = async (item: number): Promise<void> => {
      await turn();
      if (item === 5) throw stop;
    };
    await assert.rejects(inParallel(items(), 2, work), stop);
    assert.ok(taken <= 7, String(taken));
  });

  it("ends with the first failure when no call is under way", async () => {
    const begun: string[] = [];
    const ended: string[] = [];
    const first = new Error("first");
    const work = async (item: string): Promise<void> => {
      begun.push(item);
      if (item === "b") throw first;
      for (let i = 0; i < 5; i++) await turn();
      ended.push(item);
      throw new Error("later");
    };
    await assert.rejects(inParallel(["a", "b", "c"], 2, work), first);
    assert.deepEqual([begun, ended], [["a", "b"], ["a"]]);
  });

  it("resolves at once without items", async () => {
    await inParallel([], 4, async () => await Promise.reject(new Error("called")));
  });
});
