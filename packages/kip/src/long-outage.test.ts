import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { ManualClock } from "@kip/testing";
import { FaultWorld } from "./testing/faults/fault-world.ts";
import type { Operation } from "./testing/faults/operations.ts";
import { tell } from "./testing/faults/story.ts";
import { mockWhatTakesTime } from "./testing/faults/what-takes-time.ts";

const outageMs = 1_200_000;
const world = { seed: 1, lagMs: 0, callMs: 0, replicas: 1 };
const pod = { policy: "Never", cpu: "100m", graceSeconds: 2, isDeaf: false } as const;
const ends: readonly (readonly [string, Operation])[] = [
  ["has exited", { kind: "exit", index: 0, exitCode: 0 }],
  ["was deleted", { kind: "delete", index: 0, graceSeconds: undefined }],
];

describe("kip after twenty minutes without an answer", () => {
  before(mockWhatTakesTime);

  for (const target of ["api", "cloud"] as const)
    for (const [what, end] of ends)
      // The world reports what still costs money more than a minute after the last fault.
      it(`ends the machine of a pod that ${what} within a minute, without the ${target} until then`, async () => {
        await tell(
          {
            world,
            operations: [
              { kind: "create", ...pod },
              { kind: "pass", ms: 30_000 },
              { kind: "away", target, ms: outageMs },
              end,
              { kind: "pass", ms: outageMs },
              { kind: "pass", ms: 400_000 },
            ],
          },
          new ManualClock(),
        );
      });

  for (const target of ["api", "cloud"] as const)
    it(`starts twenty pods that waited for the ${target} within half a minute`, async () => {
      const fault = new FaultWorld(new ManualClock(), world);
      await fault.pass(2000);
      fault.takeAway(target, outageMs);
      for (let count = 0; count < 20; count++) await fault.createPod(pod);
      await fault.pass(outageMs, 5000);
      assert.equal(fault.figures.runs, 0);
      await fault.pass(30_000);
      assert.equal(fault.figures.runs, 20);
      await fault.stop();
    });

  it("starts twenty pods that waited for its rights in the cloud within half a minute", async () => {
    const fault = new FaultWorld(new ManualClock(), world);
    await fault.pass(2000);
    await fault.cloud.faults.fail({ operation: "launch", code: "CLOUD_AUTH", calls: 1e6 });
    for (let count = 0; count < 20; count++) await fault.createPod(pod);
    await fault.pass(outageMs, 5000);
    await fault.cloud.faults.clear();
    await fault.pass(30_000);
    assert.equal(fault.figures.runs, 20);
    await fault.stop();
  });
});
