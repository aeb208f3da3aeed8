import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate } from "node:timers/promises";
import { silentLogger } from "@kip/base";
import { ManualClock } from "@kip/testing";
import { CellStatusWriter } from "./cell-status-writer.ts";
import type { Cell, CellPhase, CellStatus } from "../state/cell.ts";

type WriteStatus = (cell: Cell, status: CellStatus) => Promise<void>;

function start(writeStatus: WriteStatus) {
  const clock = new ManualClock();
  const writer = new CellStatusWriter({ store: { writeStatus }, clock, logger: silentLogger });
  return { clock, writer };
}

const cell = { metadata: { name: "c", uid: "u" } } as unknown as Cell; // the fields that are read

describe("CellStatusWriter", () => {
  it("writes one after the other, and the newest last", async () => {
    const written: CellPhase[] = [];
    const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const { writer } = start(async (_cell, { phase }) => {
      written.push(phase);
      await gates[written.length - 1]?.promise;
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

  it("writes a status that was noted with the newest Cell: a pod may have taken a standby cell", async () => {
    const written: unknown[] = [];
    const { writer, clock } = start(async ({ spec }, { phase }) => {
      written.push([spec.podRef.name, phase]);
    });
    const claimed = { ...cell, spec: { podRef: { name: "web" } } } as unknown as Cell; // the fields that are read
    writer.note(cell, { phase: "Ready" });
    writer.note(claimed, { phase: "Claimed" });
    await clock.advance(1000);
    assert.deepEqual(written, [["web", "Claimed"]]);
  });

  it("reports a failure to the caller of that write, and continues", async () => {
    let calls = 0;
    const { writer } = start(async () => {
      if (calls++ === 0) throw new Error("no answer");
    });
    const first = writer.write(cell, { phase: "Booting" });
    const second = writer.write(cell, { phase: "Ready" });
    await assert.rejects(first, /no answer/);
    await second;
    assert.equal(calls, 2);
  });

  it("writes what is noted after a second, the newest alone, and with what is written", async () => {
    const written: CellPhase[] = [];
    const { clock, writer } = start(async (_cell, { phase }) => void written.push(phase));
    writer.note(cell, { phase: "Launching" });
    await clock.advance(500);
    writer.note(cell, { phase: "Booting" });
    await clock.advance(500);
    assert.deepEqual(written, ["Booting"]);
    writer.note(cell, { phase: "Ready" });
    await writer.write(cell, { phase: "Claimed" });
    await clock.advance(2000);
    assert.deepEqual(written, ["Booting", "Claimed"]);
    writer.note(cell, { phase: "Draining" });
    await writer.flush();
    await clock.advance(2000);
    assert.deepEqual(written, ["Booting", "Claimed", "Draining"]);
    writer.note(cell, { phase: "Terminating" });
    writer.forget(cell);
    await clock.advance(2000);
    assert.equal(written.length, 3);
  });

  it("ends only when a write that is under way has ended", async () => {
    const answer = Promise.withResolvers<void>();
    const { clock, writer } = start(async () => await answer.promise);
    writer.note(cell, { phase: "Ready" });
    await clock.advance(1000);
    let isEnded = false;
    const ending = writer.flush().then(() => (isEnded = true));
    await setImmediate();
    assert.equal(isEnded, false);
    answer.reject(new Error("no answer"));
    await ending;
  });

  it("writes a phase that passes after ten seconds, and with what may wait for a second alone", async () => {
    const written: CellPhase[] = [];
    const { clock, writer } = start(async (_cell, { phase }) => void written.push(phase));
    writer.noteTransient(cell, { phase: "Launching" });
    await clock.advance(6000);
    writer.noteTransient(cell, { phase: "Booting" });
    await clock.advance(3999);
    assert.deepEqual(written, []);
    await clock.advance(1);
    assert.deepEqual(written, ["Booting"]);
    writer.noteTransient(cell, { phase: "Booting" });
    await clock.advance(100);
    writer.note(cell, { phase: "Booting" });
    writer.noteTransient(cell, { phase: "Ready" });
    await clock.advance(1000);
    assert.deepEqual(written, ["Booting", "Ready"]);
    await clock.advance(60_000);
    assert.equal(written.length, 2);
  });

  it("writes the end of a Cell instead of what was noted, after ten seconds, and not if it is gone", async () => {
    const written: CellPhase[] = [];
    const { clock, writer } = start(async (_cell, { phase }) => void written.push(phase));
    writer.note(cell, { phase: "Draining" });
    writer.noteEnd(cell, { phase: "Terminating" });
    await clock.advance(9999);
    assert.deepEqual(written, []);
    await clock.advance(1);
    assert.deepEqual(written, ["Terminating"]);
    writer.noteEnd(cell, { phase: "Terminating" });
    await clock.advance(9999);
    writer.forget(cell);
    await clock.advance(9999);
    assert.equal(written.length, 1);
  });

  it("writes again what was noted if that fails, ever later, until it is there", async () => {
    const written: CellPhase[] = [];
    let left = 3;
    const { clock, writer } = start(async (_cell, { phase }) => {
      written.push(phase);
      if (left-- > 0) throw new Error("no answer");
    });
    writer.note(cell, { phase: "Ready" });
    for (const [waitMs, count] of [
      [1000, 1],
      [700, 1],
      [300, 2],
      [2000, 3],
      [4000, 4],
      [600_000, 4],
    ] as const) {
      await clock.advance(waitMs);
      assert.equal(written.length, count, `after ${waitMs} ms`);
    }
  });

  for (const [what, settle] of [
    ["a newer one was written", async (writer) => await writer.write(cell, { phase: "Claimed" })],
    ["the Cell is gone", (writer) => writer.forget(cell)],
    ["kip ends", async (writer) => await writer.flush()],
  ] as const satisfies readonly (readonly [
    string,
    (writer: CellStatusWriter) => Promise<void> | void,
  ])[])
    for (const when of ["under way", "to be repeated"])
      it(`does not repeat a write that is ${when} once ${what}`, async () => {
        const written: CellPhase[] = [];
        const gate = Promise.withResolvers<void>();
        const { clock, writer } = start(async (_cell, { phase }) => {
          written.push(phase);
          if (phase !== "Ready") return;
          await gate.promise;
          throw new Error("no answer");
        });
        writer.note(cell, { phase: "Ready" });
        await clock.advance(1000);
        if (when === "to be repeated") gate.resolve();
        await setImmediate();
        const settled = settle(writer);
        gate.resolve();
        await settled;
        const count = written.length;
        await clock.advance(600_000);
        assert.equal(written.length, count);
      });

  it("writes a phase that passes within a second if the API has that the cell waits for something", async () => {
    const written: CellPhase[] = [];
    const { clock, writer } = start(async (_cell, { phase }) => void written.push(phase));
    const condition = {
      type: "Launched",
      status: "False",
      message: "",
      lastTransitionTime: "",
    } as const;
    const waits = {
      phase: "Pending",
      conditions: [{ ...condition, reason: "CloudNoCapacity" }],
    } as const;
    writer.noteTransient({ ...cell, status: waits }, { phase: "Launching" });
    await clock.advance(1000);
    await writer.write(cell, waits);
    writer.noteTransient(cell, { phase: "Launching" });
    await clock.advance(1000);
    assert.deepEqual(written, ["Launching", "Pending", "Launching"]);
    const plain = [{ ...condition, reason: "InstanceNotStarted" }];
    await writer.write(cell, { phase: "Pending", conditions: plain });
    writer.noteTransient(cell, { phase: "Launching" });
    await clock.advance(9999);
    assert.equal(written.length, 4);
  });
});
