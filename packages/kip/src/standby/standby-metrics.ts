import type { MetricFamily } from "@kip/virtual-kubelet/telemetry";
import { sumsByLabels } from "../metrics/sums-by-labels.ts";
import type { StandbyCell } from "../state/cell.ts";

/** The result for a pod that needs a cell: it took one, no suitable one was ready, or there is no suitable pool. */
export type ClaimResult = "hit" | "miss" | "unfit";

/** The fields of a worker that are read to count its cell. */
export interface CountedStandby {
  readonly cell: { readonly spec: Pick<StandbyCell["spec"], "instanceType" | "launchType"> };
  readonly isReady: boolean;
  readonly isEnding: boolean;
}

/** Counts of standby cells, for Prometheus. */
export class StandbyMetrics {
  readonly #claims: Record<ClaimResult, number> = { hit: 0, miss: 0, unfit: 0 };

  count(result: ClaimResult): void {
    this.#claims[result]++;
  }

  families(workers: readonly CountedStandby[]): readonly MetricFamily[] {
    const labelsOf = (worker: CountedStandby) => ({
      instance_type: worker.cell.spec.instanceType,
      launch_type: worker.cell.spec.launchType,
      state: worker.isReady ? "ready" : worker.isEnding ? "ending" : "starting",
    });
    return [
      {
        name: "kip_standby_claims_total",
        type: "counter",
        help: "Pods that needed a cell: hit took a standby cell, miss found none ready, unfit has no pool of its kind.",
        samples: Object.entries(this.#claims).map(([result, value]) => ({
          labels: { result },
          value,
        })),
      },
      {
        name: "kip_standby_cells",
        type: "gauge",
        help: "Cells that stand by for pods.",
        samples: sumsByLabels(workers, labelsOf, () => 1),
      },
    ];
  }
}
