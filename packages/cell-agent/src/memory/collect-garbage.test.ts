import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { collectGarbage } from "./collect-garbage.ts";

suite("collectGarbage", () => {
  test("gives the memory back that is no longer used", () => {
    let kept: number[][] = Array.from({ length: 400 }, () =>
      Array.from({ length: 10_000 }, Number),
    );
    const { heapTotal: full } = process.memoryUsage();
    assert.ok(kept.length > 0);
    kept = [];
    collectGarbage();
    const { heapTotal } = process.memoryUsage();
    assert.ok(heapTotal < full - 25_000_000, `${heapTotal} of ${full} bytes are left`);
  });
});
