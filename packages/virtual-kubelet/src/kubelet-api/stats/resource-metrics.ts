import type { ContainerUsage, Usage } from "../../usage.ts";
import type { MetricFamily, MetricSample } from "../../metrics/metrics-text.ts";
import type { KnownPodUsage, NodeUsage } from "./node-usage.ts";

/**
 * The families of `/metrics/resource`, with a kubelet's texts. metrics-server reads them for `kubectl top` and autoscalers.
 *
 * @see https://kubernetes.io/docs/reference/instrumentation/node-metrics/
 */
export function resourceMetrics({ total, pods }: NodeUsage): readonly MetricFamily[] {
  const containers = pods.flatMap((each) =>
    each.containers.map((usage) => ({ usage, labels: containerLabels(each, usage) })),
  );
  const podTotals = pods.map((each) => ({ usage: each.total, labels: podLabels(each) }));
  const node = [{ usage: total }];
  return [
    cpu("container_cpu_usage_seconds_total", "container", containers),
    workingSet("container_memory_working_set_bytes", "container", containers),
    {
      name: "container_start_time_seconds",
      type: "gauge",
      help: "Start time of the container since unix epoch in seconds",
      samples: containers.flatMap(({ usage: { startTimeMs }, labels }) =>
        startTimeMs === undefined ? [] : [{ labels, value: startTimeMs / 1000 }],
      ),
    },
    {
      name: "container_swap_limit_bytes",
      type: "gauge",
      help: "Current amount of the container swap limit in bytes. Reported only on non-windows systems",
      samples: samples(containers, ({ swapLimitBytes }) => swapLimitBytes),
    },
    swap("container_swap_usage_bytes", "Current amount of the container", containers),
    cpu("node_cpu_usage_seconds_total", "node", node),
    workingSet("node_memory_working_set_bytes", "node", node),
    swap("node_swap_usage_bytes", "Current swap usage of the node in bytes", node),
    cpu("pod_cpu_usage_seconds_total", "pod", podTotals),
    workingSet("pod_memory_working_set_bytes", "pod", podTotals),
    swap("pod_swap_usage_bytes", "Current amount of the pod", podTotals),
    {
      name: "resource_scrape_error",
      type: "gauge",
      help: "1 if there was an error while getting container metrics, 0 otherwise",
      samples: [{ value: 0 }],
    },
  ];
}

interface Measured {
  readonly usage: Usage;
  readonly labels?: Readonly<Record<string, string>> | undefined;
}

function cpu(name: string, what: string, measured: readonly Measured[]): MetricFamily {
  const help = `Cumulative cpu time consumed by the ${what} in core-seconds`;
  const seconds = ({ cpuNanoseconds }: Usage): number | undefined =>
    cpuNanoseconds === undefined ? undefined : cpuNanoseconds / 1e9;
  return { name, type: "counter", help, samples: samples(measured, seconds) };
}

function workingSet(name: string, what: string, measured: readonly Measured[]): MetricFamily {
  const help = `Current working set of the ${what} in bytes`;
  const bytes = ({ workingSetBytes }: Usage): number | undefined => workingSetBytes;
  return { name, type: "gauge", help, samples: samples(measured, bytes) };
}

function swap(name: string, subject: string, measured: readonly Measured[]): MetricFamily {
  const amount = subject.startsWith("Current swap") ? "" : " swap usage in bytes";
  const help = `${subject}${amount}. Reported only on non-windows systems`;
  return { name, type: "gauge", help, samples: samples(measured, ({ swapBytes }) => swapBytes) };
}

function samples(
  measured: readonly Measured[],
  figure: (usage: Usage) => number | undefined,
): readonly MetricSample[] {
  return measured.flatMap(({ usage, labels }) => {
    const value = figure(usage);
    return value === undefined ? [] : [{ labels, value, timeMs: usage.timeMs }];
  });
}

/** Labels in the kubelet's order, which is by name, because some clients read them by position. */
function podLabels({ pod }: KnownPodUsage): Readonly<Record<string, string>> {
  return { namespace: pod.metadata.namespace, pod: pod.metadata.name };
}

function containerLabels(
  pod: KnownPodUsage,
  container: ContainerUsage,
): Readonly<Record<string, string>> {
  return { container: container.name, ...podLabels(pod) };
}
