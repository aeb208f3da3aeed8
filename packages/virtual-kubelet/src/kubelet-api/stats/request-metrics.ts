import { Durations } from "../../metrics/durations.ts";
import type { MetricFamily } from "../../metrics/metrics-text.ts";

/** Upper bounds of the duration buckets, seconds. */
const bounds = [0.005, 0.025, 0.1, 0.5, 1, 2.5, 10];

/** An answered request. */
export interface AnsweredRequest {
  readonly method: string;
  /** A route, not a path, because there must not be many different ones. */
  readonly route: string;
  /** Whether it stays open for as long as the client wants. */
  readonly isLong: boolean;
  readonly durationMs: number;
}

/** Counts a kubelet API's requests, with the kubelet's metric names. */
export class RequestMetrics {
  readonly #durations = new Durations(bounds);
  readonly #webSockets = new Map<string, number>();
  #inFlight = 0;

  begin(): void {
    this.#inFlight++;
  }

  end({ method, route, isLong, durationMs }: AnsweredRequest): void {
    this.#inFlight--;
    const labels = {
      long_running: String(isLong),
      method,
      path: route,
      server_type: "readwrite",
    };
    this.#durations.observe(labels, durationMs / 1000);
  }

  /** Counts a WebSocket for exec, attach or port-forward. */
  webSocket(subresource: string): void {
    this.#webSockets.set(subresource, (this.#webSockets.get(subresource) ?? 0) + 1);
  }

  families(): readonly MetricFamily[] {
    return [
      {
        name: "kubelet_http_inflight_requests",
        type: "gauge",
        help: "Requests to the kubelet API that are being answered",
        samples: [{ value: this.#inFlight }],
      },
      {
        name: "kubelet_http_requests_total",
        type: "counter",
        help: "Requests to the kubelet API",
        samples: this.#durations.counts(),
      },
      {
        name: "kubelet_http_requests_duration_seconds",
        type: "histogram",
        help: "How long requests to the kubelet API took",
        samples: this.#durations.samples(),
      },
      {
        name: "kubelet_streaming_websocket_requests_total",
        type: "counter",
        help: "WebSockets opened for exec, attach and port-forward",
        samples: [...this.#webSockets].map(([subresource, value]) => ({
          labels: { subresource },
          value,
        })),
      },
    ];
  }
}
