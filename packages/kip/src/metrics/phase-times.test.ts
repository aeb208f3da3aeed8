import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ManualClock } from "@kip/testing";
import { metricsText } from "@kip/virtual-kubelet/telemetry";
import type { CellPhase } from "../state/cell.ts";
import { PhaseTimes, type TimedCell } from "./phase-times.ts";

function cell(uid: string, phase?: CellPhase): TimedCell {
  return { metadata: { uid }, ...(phase && { status: { phase } }) };
}

describe("PhaseTimes", () => {
  it("has the longest time of a cell in each phase, and begins again when the cell leaves it", async () => {
    const clock = new ManualClock();
    const times = new PhaseTimes(clock);
    const read = (...cells: readonly TimedCell[]): Readonly<Record<string, string | undefined>> =>
      Object.fromEntries(
        metricsText(times.families(cells))
          .split("\n")
          .map((line) => /^kip_cells_longest_in_phase_seconds\{phase="(\w+)"\} (.*)$/.exec(line))
          .flatMap((match) => (match ? [[match[1], match[2]]] : [])),
      );
    const none = { Pending: "0", Launching: "0", Booting: "0", Draining: "0", Terminating: "0" };
    assert.deepEqual(read(cell("a"), cell("b", "Claimed")), { ...none, Terminated: "0" });
    await clock.advance(5000);
    assert.equal(read(cell("a"), cell("c", "Terminating"))["Pending"], "5");
    await clock.advance(2000);
    const later = read(cell("a", "Booting"), cell("c", "Terminating"), cell("d", "Terminating"));
    assert.deepEqual(later, { ...none, Terminating: "2", Terminated: "0" });
    await clock.advance(3000);
    assert.equal(read(cell("d", "Terminating"))["Terminating"], "3");
    await clock.advance(1000);
    assert.equal(read()["Terminating"], "0");
    assert.equal(read(cell("d", "Terminating"))["Terminating"], "0");
  });
});
