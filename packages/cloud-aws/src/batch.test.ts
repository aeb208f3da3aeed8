import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { systemClock } from "@kip/base";
import { Batch } from "./batch.ts";

function recorded(limit: number) {
  const calls: (readonly string[])[] = [];
  const batch = new Batch<string, string>({
    windowMs: 0,
    limit,
    clock: systemClock,
    run: async (keys) => {
      calls.push(keys);
      if (keys.includes("bad")) throw new Error("refused");
      return await Promise.resolve((key: string) => key.toUpperCase());
    },
  });
  return { batch, calls };
}

describe("Batch", () => {
  it("makes one call of those of a moment, and sends a key once", async () => {
    const { batch, calls } = recorded(10);
    assert.deepEqual(await Promise.all(["a", "b", "a"].map((key) => batch.get(key))), [
      "A",
      "B",
      "A",
    ]);
    assert.deepEqual(calls, [["a", "b"]]);
    await batch.get("a");
    assert.equal(calls.length, 2);
  });

  it("keeps to the limit of a call", async () => {
    const { batch, calls } = recorded(2);
    await Promise.all(["a", "b", "c"].map((key) => batch.get(key)));
    assert.deepEqual(calls, [["a", "b"], ["c"]]);
  });

  it("fails each caller of a call that fails, and none of the next one", async () => {
    const { batch } = recorded(10);
    const outcomes = await Promise.allSettled(["a", "bad"].map((key) => batch.get(key)));
    assert.deepEqual(
      outcomes.map(({ status }) => status),
      ["rejected", "rejected"],
    );
    assert.equal(await batch.get("a"), "A");
  });
});
