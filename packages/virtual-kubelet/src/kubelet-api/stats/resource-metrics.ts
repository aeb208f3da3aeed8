import type { ContainerUsage, Usage } from "../../usage.ts";
import type { MetricFamily, MetricSample } from "../../metrics/metrics-text.ts";
import type { KnownPodUsage, NodeUsage } from "./node-usage.ts";

/**
 * The families of `/metrics/resource`: what metrics-server reads, and with it `kubectl top` and
 * autoscalers.
 * @see https://kubernetes.io/docs/reference/instrumentation/node-metrics/
 */
export function resourceMetrics({ total, pods }: NodeUsage): readonly MetricFamily[] {
  const containers = pods.flatMap((each) =>
    each.containers.map((usage) => ({ usage, labels: containerLabels(each, usage) })),
  );
  const podTotals = pods.map((each) => ({ usage: each.total, labels: podLabels(each) }));
  const node = [{ usage: total }];
  return [
    counter("container_cpu_usage_seconds_total", "Processor time used by a container", containers),
    memory("container_memory_working_set_bytes", "Working set of a container", containers),
    {
      name: "container_start_time_seconds",
      type: "gauge",
      help: "When a container was started, seconds since the epoch",
      samples: containers.flatMap(({ usage, labels }) =>
        usage.startTimeMs === undefined
          ? []
          : [{ labels, value: usage.startTimeMs / 1000, timeMs: usage.timeMs }],
      ),
    },
    counter("node_cpu_usage_seconds_total", "Processor time used by the node", node),
    memory("node_memory_working_set_bytes", "Working set of the node", node),
    counter("pod_cpu_usage_seconds_total", "Processor time used by a pod", podTotals),
    memory("pod_memory_working_set_bytes", "Working set of a pod", podTotals),
    {
      name: "resource_scrape_error",
      type: "gauge",
      help: "1 if the figures could not be had, else 0",
      samples: [{ value: 0 }],
    },
  ];
}

interface Measured {
  readonly usage: Usage;
  readonly labels?: Readonly<Record<string, string>> | undefined;
}

function counter(name: string, help: string, measured: readonly Measured[]): MetricFamily {
  const samples = measured.flatMap((each) =>
    sample(each, each.usage.cpuNanoseconds, (nanoseconds) => nanoseconds / 1e9),
  );
  return { name, type: "counter", help: `${help}, seconds`, samples };
}

function memory(name: string, help: string, measured: readonly Measured[]): MetricFamily {
  const samples = measured.flatMap((each) => sample(each, each.usage.workingSetBytes));
  return { name, type: "gauge", help: `${help}, bytes`, samples };
}

function sample(
  { usage, labels }: Measured,
  figure: number | undefined,
  convert: (figure: number) => number = (value) => value,
): readonly MetricSample[] {
  if (figure === undefined) return [];
  return [{ labels, value: convert(figure), timeMs: usage.timeMs }];
}

function podLabels({ pod }: KnownPodUsage): Readonly<Record<string, string>> {
  return { pod: pod.metadata.name, namespace: pod.metadata.namespace };
}

function containerLabels(
  pod: KnownPodUsage,
  container: ContainerUsage,
): Readonly<Record<string, string>> {
  return { container: container.name, ...podLabels(pod) };
}
