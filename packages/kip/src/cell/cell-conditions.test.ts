import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { newCellState, type CellState } from "../state/cell-state.ts";
import type { CellChange } from "../state/cell-change.ts";
import type { Cell, CellPhase, CellSpec, CellStatus } from "../state/cell.ts";
import { hasNewConditions } from "./cell-conditions.ts";
import { reduceCell } from "./reduce-cell.ts";

const start = Date.parse("2026-01-01T00:00:00Z");
const podRef = { namespace: "default", name: "web", uid: "u" };

/** A Cell as the API has it. */
function cellWith(status?: CellStatus, spec: Partial<CellSpec> = { podRef }): Cell {
  const machine = { instanceType: "t3.small", launchType: "spot", ...spec };
  return { metadata: { name: "c", uid: "c" }, spec: machine, ...(status && { status }) } as Cell; // the fields that are read
}

/** Applies changes, one per second. */
class Life {
  state: CellState = newCellState(podRef, "192.0.2.1");
  #second = 0;

  apply(...changes: readonly CellChange[]): this {
    for (const change of changes) {
      const ms = ++this.#second * 1000;
      this.state = reduceCell(this.state, change, { monotonicMs: ms, wallMs: start + ms });
    }
    return this;
  }

  phase(phase: CellPhase, more: Partial<CellStatus> = {}): this {
    return this.apply({ kind: "cellStatus", status: { phase, ...more } });
  }

  /** In the form `Type=Status Reason second`. */
  get shown(): readonly string[] {
    return (this.state.cell.status.conditions ?? []).map(
      ({ type, status, reason, lastTransitionTime }) =>
        `${type}=${status} ${reason} ${(Date.parse(lastTransitionTime) - start) / 1000}`,
    );
  }

  message(type: string): string | undefined {
    return this.state.cell.status.conditions?.find((each) => each.type === type)?.message;
  }
}

const created = (cell = cellWith()): CellChange => ({ kind: "cellCreated", cell, apiMs: 1 });
const waits = (message: string): CellChange => ({
  kind: "waits",
  reason: "CellWaits",
  message,
  isTurn: true,
});

describe("the conditions of a cell", () => {
  it("become true one after the other, each with its time", () => {
    const life = new Life().apply(created());
    assert.deepEqual(life.shown, [
      "Launched=False InstanceNotStarted 1",
      "Running=False InstanceNotRunning 1",
      "Ready=False AgentNotConnected 1",
      "Claimed=False PodNotSent 1",
    ]);
    life.phase("Launching", { instanceID: "i-1" }).phase("Booting", { ip: "10.0.0.1" });
    life.phase("Ready").phase("Claimed");
    assert.deepEqual(life.shown, [
      "Launched=True InstanceStarted 2",
      "Running=True InstanceRunning 3",
      "Ready=True AgentAnswers 4",
      "Claimed=True PodSent 5",
    ]);
    assert.equal(life.message("Launched"), 'Instance "i-1" (t3.small, spot)');
    assert.equal(life.message("Running"), "The instance runs at 10.0.0.1");
    assert.equal(life.message("Claimed"), 'The instance has pod "default/web"');
  });

  it("say at the first that is not true what the cell waits for, and do not change with its figures", () => {
    const life = new Life().apply(created(), waits("place 12 in the queue"));
    assert.equal(life.shown[0], "Launched=False CellWaits 1");
    const { conditions } = life.state.cell.status;
    const { lastTransitionTime } = conditions?.[0] ?? {};
    assert.deepEqual(conditions?.[0], {
      type: "Launched",
      status: "False",
      reason: "CellWaits",
      message: "place 12 in the queue",
      lastTransitionTime,
    });
    assert.equal(
      life.apply(waits("place 7 in the queue")).state.cell.status.conditions,
      conditions,
    );
    life.apply(waits("for 2 GiB at 10.0.0.1")).apply(waits("for 1.5 GiB at 10.0.0.12"));
    assert.equal(life.message("Launched"), "for 2 GiB at 10.0.0.1");
    life.phase("Launching", { instanceID: "i-1" });
    assert.deepEqual(life.shown.slice(0, 2), [
      "Launched=True InstanceStarted 6",
      "Running=False CellWaits 1",
    ]);
  });

  it("say that the agent is out of reach once the cloud was asked, until it answers", () => {
    const life = new Life().apply(created()).phase("Claimed").apply({ kind: "agentLost" });
    const ready = (): string | undefined => life.shown[2];
    assert.equal(ready(), "Ready=True AgentAnswers 2");
    life.apply({ kind: "cloudAsked", isRunning: true });
    assert.equal(ready(), "Ready=False AgentUnreachable 4");
    assert.match(life.message("Ready") ?? "", /the cloud says that the instance runs/);
    life.apply({ kind: "cloudAsked", isRunning: false });
    assert.match(life.message("Ready") ?? "", /the cloud does not say that/);
    const client = {} as CellChange<"connected">["client"]; // none of it is called
    life.apply({ kind: "connected", client });
    assert.equal(ready(), "Ready=True AgentAnswers 6");
  });

  it("still say after a restart of kip that the agent is out of reach, until it answers or the cloud is asked", () => {
    const life = new Life().apply(created()).phase("Claimed").apply({ kind: "agentLost" });
    life.apply({ kind: "cloudAsked", isRunning: true });
    const { status } = life.state.cell;
    const again = (): Life => new Life().apply({ kind: "cellSeen", cell: cellWith(status) });
    const waiting = again().apply({ kind: "dialing" }, waits("for its turn"));
    assert.deepEqual(waiting.state.cell.status.conditions, status.conditions);
    waiting.apply({ kind: "cloudAsked", isRunning: false });
    assert.match(waiting.message("Ready") ?? "", /the cloud does not say that/);
    const client = {} as CellChange<"connected">["client"]; // none of it is called
    const answered = again().apply({ kind: "connected", client });
    assert.equal(answered.shown[2], "Ready=True AgentAnswers 2");
    answered.apply({ kind: "agentLost" });
    assert.equal(answered.shown[2], "Ready=True AgentAnswers 2");
  });

  it("are read without a message, as another client may have written them", () => {
    const conditions = [{ type: "Launched", status: "False", reason: "InstanceNotStarted" }];
    const status = { phase: "Pending", conditions } as unknown as CellStatus; // as the CRD allows it
    const life = new Life().apply({ kind: "cellSeen", cell: cellWith(status) });
    assert.equal(life.message("Launched"), "The cloud has not started an instance yet");
  });

  it("keep what was reached when the cell ends, and say why it ends", () => {
    const life = new Life().apply(created()).phase("Launching", { instanceID: "i-1" });
    life.apply({ kind: "removed", graceSeconds: 0 }).phase("Terminating");
    assert.deepEqual(life.shown, [
      "Launched=True InstanceStarted 2",
      "Running=False InstanceNotRunning 1",
      "Ready=False PodDeleted 1",
      "Claimed=False PodNotSent 1",
    ]);
    const { conditions } = life.state.cell.status;
    life.apply({ kind: "finished" }, { kind: "terminated" });
    assert.equal(life.state.cell.status.conditions, conditions, "no other reason afterwards");
    const standby = cellWith(undefined, {});
    const unused = new Life().apply(created(standby)).phase("Ready").phase("Terminating");
    assert.equal(unused.shown[2], "Ready=False NotNeeded 3");
  });

  it("are written when they change by themselves, not with a phase or after a restart of kip", () => {
    const life = new Life().apply(created());
    const changes = (...done: readonly CellChange[]): boolean => {
      const { status } = life.state.cell;
      return hasNewConditions(status, life.apply(...done).state.cell.status);
    };
    assert.equal(hasNewConditions(undefined, life.state.cell.status), false);
    assert.equal(changes(waits("for room")), true);
    assert.equal(changes({ kind: "cellStatus", status: { phase: "Claimed" } }), false);
    assert.equal(changes({ kind: "cellStatus", status: { startMs: {} } }), false);
    const { status } = life.state.cell;
    const again = new Life().apply({ kind: "cellSeen", cell: cellWith(status) });
    assert.equal(again.state.cell.status.conditions, status.conditions);
  });
});
