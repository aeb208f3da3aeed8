import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Instance } from "@kip/cloud";
import { ManualClock } from "@kip/testing";
import { cellStateWith, StateUnderTest } from "../testing/index.ts";
import type { CellChange } from "../state/cell-change.ts";
import type { Cell } from "../state/cell.ts";

const podRef = { namespace: "default", name: "web", uid: "p" };
const object = { metadata: { name: "c", uid: "c" }, spec: { podRef } } as Cell; // the fields that are read
const instance = { id: "i", token: "c", state: "running" } as Instance; // the fields that are read

describe("reduceCell()", () => {
  const later: Readonly<Record<string, CellChange>> = {
    "a lost answer": { kind: "machine", state: "unknown" },
    "a list that is behind": { kind: "machineSeen", instance },
    "the answer to the launch": { kind: "launched", instance, cloudMs: 1 },
    "the answer that it runs": { kind: "running", instance, cloudMs: 1 },
    "a refusal": { kind: "refused" },
  };
  for (const [what, change] of Object.entries(later)) {
    it(`does not take ${what} for the life of an instance that has ended`, () => {
      const machine = { instance, state: "running" } as const;
      const subject = new StateUnderTest(
        cellStateWith({ cell: { object }, machine }),
        new ManualClock(),
      );
      subject.apply({ kind: "instanceEnded", token: "c" });
      subject.apply(change);
      assert.equal(subject.state.machine.state, "gone");
    });
  }

  it("does not take the state of another Cell that the pod was given for its own", () => {
    const subject = new StateUnderTest(cellStateWith({ cell: { object } }), new ManualClock());
    const { state: before } = subject;
    const status = { phase: "Claimed", instanceID: "i-other" } as const;
    const other: Cell = { ...object, metadata: { ...object.metadata, uid: "other" }, status };
    subject.apply({ kind: "cellCreated", cell: other, apiMs: 1 });
    assert.equal(subject.state, before);
  });
});
