import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CellStatusWriter } from "./cell-status-writer.ts";
import type { Cell, CellPhase } from "../state/cell.ts";

const cell = { metadata: { name: "c", uid: "u" } } as unknown as Cell; // all that is looked at

describe("CellStatusWriter", () => {
  it("writes one after the other, and the newest last", async () => {
    const written: CellPhase[] = [];
    const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const writer = new CellStatusWriter({
      writeStatus: async (_cell, { phase }) => {
        written.push(phase);
        await gates[written.length - 1]?.promise;
      },
    });
    const phases = ["Launching", "Booting", "Ready", "Claimed"] as const;
    const writes = phases.map((phase) => writer.write(cell, { phase }));
    gates[0]?.resolve();
    await writes[0];
    gates[1]?.resolve();
    await Promise.all(writes);
    assert.deepEqual(written, ["Launching", "Claimed"]);
    await writer.write(cell, { phase: "Draining" });
    assert.equal(written.at(-1), "Draining");
  });

  it("reports a failure to the caller of that write, and continues", async () => {
    let calls = 0;
    const writer = new CellStatusWriter({
      writeStatus: async () => {
        if (calls++ === 0) throw new Error("no answer");
      },
    });
    const first = writer.write(cell, { phase: "Booting" });
    const second = writer.write(cell, { phase: "Ready" });
    await assert.rejects(first, /no answer/);
    await second;
    assert.equal(calls, 2);
  });
});
