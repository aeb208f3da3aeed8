import { Durations } from "./durations.ts";
import { metricsText, type MetricFamily } from "./metrics-text.ts";

/** Upper bounds of duration buckets, seconds. */
const bounds = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];

/** Number of pods by the state of their workers. */
export interface PodCounts {
  readonly known: number;
  /** Pods with a running step. */
  readonly busy: number;
  /** Pods whose last step failed and will be repeated. */
  readonly failing: number;
}

/** Metrics of a node. */
export class NodeMetrics {
  readonly #steps = new Durations(bounds);
  readonly #starts = new Durations(bounds);
  readonly #requests = new Durations(bounds);
  /** Called when the metrics are read. */
  podCounts: () => PodCounts = () => ({ known: 0, busy: 0, failing: 0 });
  /** The provider's own metrics. Called when the metrics are read. */
  providerFamilies: () => readonly MetricFamily[] = () => [];

  /** Records the end of a step of a pod's worker. */
  step(step: string, result: "ok" | "failed", ms: number): void {
    this.#steps.observe({ step, result }, ms / 1000);
  }

  /** Records that a pod is Running, and the time since its object was created. */
  podStarted(ms: number): void {
    this.#starts.observe({}, Math.max(0, ms) / 1000);
  }

  /** Records the end of a request to the API server. */
  apiRequest(method: string, code: string, ms: number): void {
    this.#requests.observe({ method, code }, ms / 1000);
  }

  /** The metrics in Prometheus' text format. */
  text(): string {
    const { known, busy, failing } = this.podCounts();
    return metricsText([
      {
        name: "virtual_kubelet_pods",
        type: "gauge",
        help: "Pods bound to the node, by what their workers do.",
        samples: Object.entries({ idle: known - busy - failing, busy, failing }).map(
          ([state, value]) => ({ labels: { state }, value }),
        ),
      },
      {
        name: "virtual_kubelet_pod_step_duration_seconds",
        type: "histogram",
        help: "Steps of pods' workers: apply, finish, remove, finalize, forget.",
        samples: this.#steps.samples(),
      },
      {
        name: "virtual_kubelet_pod_start_duration_seconds",
        type: "histogram",
        help: "Time from a pod's creation until its status was written as Running.",
        samples: this.#starts.samples(),
      },
      {
        name: "virtual_kubelet_api_request_duration_seconds",
        type: "histogram",
        help: "Requests to the API server.",
        samples: this.#requests.samples(),
      },
      ...this.providerFamilies(),
    ]);
  }
}
