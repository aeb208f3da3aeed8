import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Instance } from "@kip/cloud";
import { ManualClock } from "@kip/testing";
import { cellStateWith, StateUnderTest } from "../../testing/index.ts";
import type { Cell, CellStatus } from "../../state/cell.ts";
import { awaitRunning, observeInstance } from "./start-instance.ts";
import type { CellTools } from "./step-context.ts";

const podRef = { namespace: "default", name: "web", uid: "p" };
const object = { metadata: { name: "c", uid: "c" }, spec: { podRef } } as Cell; // the fields that are read
const instance = { id: "i-1", token: "c", state: "running" } as Instance; // the fields that are read

/** What the step finds for a Cell with this status, and what it writes. */
async function observe(status: CellStatus, listed: readonly Instance[], consistencyMs?: number) {
  const written: CellStatus[] = [];
  const clock = new ManualClock();
  const tools = {
    clock,
    driver: { describe: async () => listed[0], consistencyMs },
    instances: { get: async () => listed },
    shortages: { accepted: () => {} },
    statuses: { note: (_cell: Cell, noted: CellStatus) => void written.push(noted) },
  } as unknown as CellTools; // the parts that the step uses
  const subject = new StateUnderTest(cellStateWith({ cell: { object, status } }), clock);
  await subject.run((context) => observeInstance(tools, context));
  return { state: subject.state.machine.state, written };
}

describe("observeInstance()", () => {
  it("takes an instance that is not there for one that was not launched yet", async () => {
    assert.equal((await observe({ phase: "Pending" }, [])).state, "none");
  });

  it("takes it for lost if kip had noted it", async () => {
    assert.equal((await observe({ phase: "Launching", instanceID: "i-1" }, [])).state, "gone");
  });

  it("takes it for lost if the cell had its pod, though kip ended before it noted the instance", async () => {
    assert.equal((await observe({ phase: "Claimed" }, [])).state, "gone");
    assert.equal((await observe({ phase: "Draining" }, [])).state, "gone");
  });

  it("waits for one that an earlier kip has launched so recently that the cloud may not show it yet", async () => {
    const launchedAgo = (ms: number): CellStatus => {
      const lastTransitionTime = new Date(new ManualClock().now() - ms).toISOString();
      const launched = { type: "Launched", status: "True", reason: "", message: "" } as const;
      const conditions = [{ ...launched, lastTransitionTime }];
      return { phase: "Claimed", instanceID: "i-1", conditions };
    };
    await assert.rejects(observe(launchedAgo(50_000), [], 60_000), { code: "CLOUD_UNAVAILABLE" });
    for (const [ms, consistencyMs] of [
      [70_000, 60_000],
      [50_000, undefined],
      [-70_000, 60_000],
    ] as const)
      assert.equal((await observe(launchedAgo(ms), [], consistencyMs)).state, "gone");
  });

  it("notes an instance that it finds", async () => {
    const { state, written } = await observe({ phase: "Pending" }, [instance]);
    assert.deepEqual([state, written.map(({ instanceID }) => instanceID)], ["running", ["i-1"]]);
  });
});

describe("awaitRunning()", () => {
  for (const [before, after] of [
    ["Launching", "Booting"],
    ["Claimed", "Claimed"],
    ["Draining", "Draining"],
  ] as const)
    it(`leaves a cell in phase ${before} in phase ${after}`, async () => {
      const tools = {
        clock: new ManualClock(),
        driver: { waitForRunning: async () => instance },
        statuses: { noteTransient: () => {} },
      } as unknown as CellTools; // the parts that the step uses
      const state = cellStateWith({
        cell: { object, status: { phase: before } },
        machine: { instance },
      });
      const subject = new StateUnderTest(state, tools.clock);
      await subject.run((context) => awaitRunning(tools, context));
      assert.equal(subject.state.cell.status.phase, after);
    });
});
