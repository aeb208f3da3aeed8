import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Instance } from "@kip/cloud";
import { ManualClock } from "@kip/testing";
import { cellStateWith, StateUnderTest } from "../../testing/index.ts";
import type { Cell, CellStatus } from "../../state/cell.ts";
import { observeInstance } from "./start-instance.ts";
import type { CellTools } from "./step-context.ts";

const podRef = { namespace: "default", name: "web", uid: "p" };
const object = { metadata: { name: "c", uid: "c" }, spec: { podRef } } as Cell; // all that is looked at
const instance = { id: "i-1", token: "c", state: "running" } as Instance; // all that is looked at

/** What the step finds of a Cell with this status, and what it has written. */
async function observe(status: CellStatus, listed: readonly Instance[]) {
  const written: CellStatus[] = [];
  const tools = {
    driver: { describe: async () => listed[0] },
    instances: { get: async () => listed },
    statuses: { note: (_cell: Cell, noted: CellStatus) => void written.push(noted) },
  } as unknown as CellTools; // all that the step uses
  const subject = new StateUnderTest(
    cellStateWith({ cell: { object, status } }),
    new ManualClock(),
  );
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

  it("notes an instance that it finds", async () => {
    const { state, written } = await observe({ phase: "Pending" }, [instance]);
    assert.deepEqual([state, written.map(({ instanceID }) => instanceID)], ["running", ["i-1"]]);
  });
});
