import type { Clock } from "@kip/base";
import type { MetricFamily } from "@kip/virtual-kubelet/telemetry";
import { cellPhases, type Cell, type CellPhase, type CellStatus } from "../state/cell.ts";

/** Phases that a cell should leave soon. It stays in the others as long as its pod runs, or until a pod comes. */
const passing: readonly CellPhase[] = cellPhases.filter(
  (phase) => phase !== "Ready" && phase !== "Claimed",
);

/** The fields of a Cell that are read to measure its phase. */
export interface TimedCell {
  readonly metadata: Pick<Cell["metadata"], "uid">;
  readonly status?: Pick<CellStatus, "phase">;
}

/**
 * How long cells have been in phases that they should leave soon. Times count from the first scrape that saw the cell in its
 * phase. So they start over with each start of kip, and are too short by up to one scrape interval.
 */
export class PhaseTimes {
  readonly #clock: Clock;
  #seen: ReadonlyMap<string, { readonly phase: CellPhase; readonly sinceMs: number }> = new Map();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** @param cells the Cells of this kip's node, as read from the API */
  families(cells: readonly TimedCell[]): readonly MetricFamily[] {
    const now = this.#clock.monotonic();
    const longestMs = new Map(passing.map((phase) => [phase, 0]));
    this.#seen = new Map(
      cells.map(({ metadata: { uid }, status }) => {
        const phase = status?.phase ?? "Pending";
        const before = this.#seen.get(uid);
        const sinceMs = before?.phase === phase ? before.sinceMs : now;
        const longest = longestMs.get(phase);
        if (longest !== undefined) longestMs.set(phase, Math.max(longest, now - sinceMs));
        return [uid, { phase, sinceMs }];
      }),
    );
    return [
      {
        name: "kip_cells_longest_in_phase_seconds",
        type: "gauge",
        help: "How long the cell that is in a phase for the longest time has been there; 0 without one.",
        samples: [...longestMs].map(([phase, ms]) => ({ labels: { phase }, value: ms / 1000 })),
      },
    ];
  }
}
