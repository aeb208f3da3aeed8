import { systemClock, type Clock } from "@kip/base";
import { Durations, type MetricFamily } from "@kip/virtual-kubelet/telemetry";
import { startPhases, type Cell, type CellStatus } from "../state/cell.ts";
import type { CloudObserver } from "./measured-driver.ts";
import { PhaseTimes, type TimedCell } from "./phase-times.ts";
import { sumsByLabels } from "./sums-by-labels.ts";

/** Upper bounds of the phases of a start, seconds. */
const startBounds = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];
/** Upper bounds of requests to the cloud, seconds. */
const cloudBounds = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/**
 * Events for which deploy/observability has alerts, with their types here. They are counted from 0, because Prometheus sees no
 * increase if a series begins with 50.
 */
const alertedEvents = [
  ["Normal", "CellLost"],
  ["Warning", "CellBootFailed"],
  ["Warning", "CellUnreachable"],
] as const;

/** The fields of a Cell that are read to count it. */
export interface CountedCell extends TimedCell {
  readonly spec: Pick<Cell["spec"], "launchType" | "instanceType" | "pricePerHour">;
}

/** Metrics of kip, with names that begin with `kip_`. docs/observability.md lists them. */
export class KipMetrics {
  readonly #starts = new Durations(startBounds);
  readonly #cloud = new Durations(cloudBounds);
  readonly #times: PhaseTimes;
  readonly #orphans = { ok: 0, failed: 0 };
  readonly #events = new Map<string, { readonly labels: EventLabels; count: number }>();

  /** @param clock for the time that cells are in their phases */
  constructor(clock: Clock = systemClock) {
    this.#times = new PhaseTimes(clock);
    for (const [type, reason] of alertedEvents) this.#eventCount(type, reason);
  }

  /** Counts an event of a pod that kip itself reported. `reason` is one of docs/pod-events.md. */
  event(type: "Normal" | "Warning", reason: string): void {
    this.#eventCount(type, reason).count++;
  }

  #eventCount(type: "Normal" | "Warning", reason: string): { count: number } {
    const key = `${type} ${reason}`;
    const count = this.#events.get(key) ?? { labels: { type, reason }, count: 0 };
    this.#events.set(key, count);
    return count;
  }

  /** Counts a request to the cloud to end an instance without a Cell. */
  orphanTermination(result: "ok" | "failed"): void {
    this.#orphans[result]++;
  }

  /** Records a start of which all phases are known. */
  started({ startMs, startedFrom = "boot" }: Pick<CellStatus, "startMs" | "startedFrom">): void {
    for (const phase of startPhases) {
      const ms = startMs?.[phase];
      if (ms !== undefined) {
        this.#starts.observe({ phase, started_from: startedFrom }, Math.max(0, ms) / 1000);
      }
    }
  }

  /** Records a request to the cloud that has ended. */
  readonly cloudRequest: CloudObserver = (operation, result, ms) => {
    this.#cloud.observe({ operation, result }, ms / 1000);
  };

  /** @param cells the Cells of this kip's node, as read from the API */
  families(cells: readonly CountedCell[]): readonly MetricFamily[] {
    const names = ({ spec, status }: CountedCell) => ({
      phase: status?.phase ?? "Pending",
      launch_type: spec.launchType,
      instance_type: spec.instanceType,
    });
    return [
      {
        name: "kip_cells",
        type: "gauge",
        help: "Cells, by phase, launch type and instance type.",
        samples: sumsByLabels(cells, names, () => 1),
      },
      ...this.#times.families(cells),
      {
        name: "kip_cells_dollars_per_hour",
        type: "gauge",
        help: "What the instances of all cells cost by the hour, US dollars, by the prices they were chosen by.",
        samples: sumsByLabels(
          cells,
          ({ spec }) => ({ launch_type: spec.launchType, instance_type: spec.instanceType }),
          ({ spec }) => spec.pricePerHour,
        ),
      },
      {
        name: "kip_cell_start_phase_duration_seconds",
        type: "histogram",
        help: `Phases of pods' starts: ${startPhases.join(", ")}.`,
        samples: this.#starts.samples(),
      },
      {
        name: "kip_pod_events_total",
        type: "counter",
        help: "Events of pods that kip reported, by type and reason.",
        samples: [...this.#events.values()].map(({ labels, count }) => ({ labels, value: count })),
      },
      {
        name: "kip_cloud_request_duration_seconds",
        type: "histogram",
        help: 'Requests to the cloud, by operation and result: "ok", or the code of the error.',
        samples: this.#cloud.samples(),
      },
      {
        name: "kip_orphan_terminations_total",
        type: "counter",
        help: "Requests to end an instance without a Cell, by result.",
        samples: Object.entries(this.#orphans).map(([result, value]) => ({
          labels: { result },
          value,
        })),
      },
    ];
  }
}

type EventLabels = Readonly<Record<"type" | "reason", string>>;
