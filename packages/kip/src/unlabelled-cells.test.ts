import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { ManualClock } from "@kip/testing";
import type { Operation } from "./testing/faults/operations.ts";
import { tell } from "./testing/faults/story.ts";
import { mockWhatTakesTime } from "./testing/faults/what-takes-time.ts";

/** Runs a pod and a standby cell, and removes the labels of both Cells while kip is away. */
async function unlabel(meanwhile: readonly Operation[]): ReturnType<typeof tell> {
  return await tell(
    {
      world: { seed: 1, lagMs: 0, callMs: 0, replicas: 1 },
      operations: [
        { kind: "create", policy: "Never", cpu: "1500m", graceSeconds: 2, isDeaf: false },
        { kind: "standby", count: 1 },
        { kind: "pass", ms: 30_000 },
        { kind: "kill", replica: 0, atCall: 1, effect: "none" },
        { kind: "unlabelCell", index: 0 },
        { kind: "unlabelCell", index: 1 },
        ...meanwhile,
        { kind: "pass", ms: 120_000 },
      ],
    },
    new ManualClock(),
  );
}

describe("Cells that lose the label of their node while kip is away", () => {
  before(mockWhatTakesTime);

  it("keep their pods", async () => {
    const { runs } = await unlabel([]);
    assert.equal(runs, 1);
  });

  it("are ended with their pods", async () => {
    await unlabel([{ kind: "delete", index: 0, graceSeconds: 1 }]);
  });
});
