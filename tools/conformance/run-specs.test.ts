import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { runSpecs } from "./run-specs.ts";
import type { Spec } from "./specs.ts";

const specs = (names: string, isSerial: boolean): readonly Spec[] =>
  names.split("").map((name) => ({ name, sig: "node", isConformance: true, isSerial }));

describe("runSpecs()", () => {
  it("runs as many beside each other as there are workers, and serial ones alone behind them", async () => {
    const plan = { parallel: specs("abcde", false), serial: specs("xy", true), finished: 3 };
    const begun: string[] = [];
    const counts: number[] = [];
    let running = 0;
    const most = { parallel: 0, serial: 0 };
    await runSpecs(plan, {
      workers: 2,
      run: async ({ name, isSerial }) => {
        begun.push(name);
        running++;
        const kind = isSerial ? "serial" : "parallel";
        most[kind] = Math.max(most[kind], running);
        await new Promise(setImmediate);
        running--;
        return { name, outcome: "passed", seconds: 0, reason: "" };
      },
      onResult: async (_result, finished) => void counts.push(finished),
    });
    assert.deepEqual(begun, "abcdexy".split(""));
    assert.deepEqual(most, { parallel: 2, serial: 1 });
    assert.deepEqual(counts, [4, 5, 6, 7, 8, 9, 10]);
  });
});
