import type { PodReport } from "@kip/agent-api";
import type { PodStatus } from "@kip/k8s-types";
import type { ProviderCallbacks } from "@kip/virtual-kubelet";
import { eventsOfReport } from "./pod-events.ts";

/** Options of {@link PodPublisher}. */
export interface PodPublisherOptions {
  readonly podUid: string;
  /** Undefined before the virtual kubelet is listening. */
  readonly callbacks: () => ProviderCallbacks | undefined;
  /** When this process started, milliseconds since the Unix epoch. Earlier processes published earlier events. */
  readonly startedAt: number;
}

/** Publishes the status and the events of one pod, each new one once. */
export class PodPublisher {
  readonly #options: PodPublisherOptions;
  #status: PodStatus | undefined;
  /** The sequence number of the newest published event, and the cell to which it belongs. */
  #lastEvent = 0;
  #cellUid: string | undefined;

  constructor(options: PodPublisherOptions) {
    this.#options = options;
  }

  /** Publishes a status, unless it is the same object as before. */
  status(status: PodStatus | undefined): void {
    if (status === undefined || status === this.#status) return;
    this.#status = status;
    const { callbacks, podUid } = this.#options;
    callbacks()?.podStatus({ uid: podUid, status });
  }

  /** Publishes the new events of a report. */
  report(report: PodReport, cellUid: string | undefined): void {
    const { callbacks, podUid, startedAt } = this.#options;
    const newest = report.events.at(-1)?.sequence ?? 0;
    // If the numbers start over, the agent was restarted, or the report is from another cell.
    const isSameCount = newest >= this.#lastEvent && cellUid === this.#cellUid;
    const last = isSameCount ? this.#lastEvent : 0;
    for (const { sequence, time, event } of eventsOfReport(report, podUid)) {
      if (sequence > last && Date.parse(time) >= startedAt) callbacks()?.podEvent(event);
    }
    this.#lastEvent = newest;
    this.#cellUid = cellUid;
  }
}
