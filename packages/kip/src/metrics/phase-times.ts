import type { Clock } from "@kip/base";
import type { MetricFamily } from "@kip/virtual-kubelet/telemetry";
import { cellPhases, type Cell, type CellPhase, type CellStatus } from "../state/cell.ts";

/**
 * Phases that a cell should leave without delay. In the others it stays as long as its pod runs, or until a pod
 * comes.
 */
const passing: readonly CellPhase[] = cellPhases.filter(
  (phase) => phase !== "Ready" && phase !== "Claimed",
);

/** What is read of a Cell to time its phase. */
export interface TimedCell {
  readonly metadata: Pick<Cell["metadata"], "uid">;
  readonly status?: Pick<CellStatus, "phase">;
}

/**
 * How long cells have been in phases that they should leave. Times are measured from the first time that the figures
 * are read with the cell in its phase: they begin again with each start of kip, and are too short by up to one
 * interval of the monitoring.
 */
export class PhaseTimes {
  readonly #clock: Clock;
  #seen: ReadonlyMap<string, { readonly phase: CellPhase; readonly sinceMs: number }> = new Map();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** @param cells those of this kip's node, as the API has them */
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
