import type { Pod } from "@kip/k8s-types";
import type { ContainerUsage, InterfaceUsage, Usage } from "../../usage.ts";
import type { MetricFamily, MetricSample } from "../../metrics/metrics-text.ts";
import type { KnownPodUsage, NodeUsage } from "./node-usage.ts";

/**
 * The families of `/metrics/cadvisor`: cAdvisor's names and labels for the provider's measurements of pods (with an empty
 * `container`) and containers. Generated one at a time, because with many pods all of them together are large.
 *
 * @see https://github.com/google/cadvisor/blob/master/docs/storage/prometheus.md
 */
export function* cadvisorMetrics({ pods }: NodeUsage): Generator<MetricFamily> {
  const series = pods.flatMap(seriesOf);
  for (const [name, type, help, read] of families)
    yield { name, type, help, samples: series.flatMap((one) => samples(one, read)) };
  const networks = pods.flatMap(networkOf);
  for (const [name, help, key] of networkFamilies)
    yield { name, type: "counter", help, samples: networks.flatMap(networkSamples(key)) };
  const help = "1 if there was an error while getting container metrics, 0 otherwise";
  yield { name: "container_scrape_error", type: "gauge", help, samples: [{ value: 0 }] };
}

/** The labels of a series. Some families add more at certain places, because a Go registry sorts labels by name. */
interface Labels {
  readonly container: string;
  readonly id: string;
  readonly image: string;
  readonly name: string;
  readonly namespace: string;
  readonly pod: string;
}

interface Series {
  readonly labels: Labels;
  readonly usage: Usage & Pick<ContainerUsage, "startTimeMs">;
}

interface Figure {
  readonly value: number | undefined;
  /** Labels between `container` and `id`. */
  readonly first?: Readonly<Record<string, string>>;
  /** Labels after `pod`. */
  readonly last?: Readonly<Record<string, string>>;
  /** Whether to omit the time. cAdvisor does so for values that it does not measure. */
  readonly isTimeless?: boolean;
}

type Family = readonly [
  name: string,
  type: MetricFamily["type"],
  help: string,
  read: (usage: Series["usage"]) => readonly Figure[],
];

const families: readonly Family[] = [
  gauge("container_last_seen", "Last time a container was seen by the exporter", (usage) =>
    Math.floor(usage.timeMs / 1000),
  ),
  timeless(
    "container_start_time_seconds",
    "Start time of the container since unix epoch in seconds.",
    ({ startTimeMs }) => (startTimeMs === undefined ? undefined : Math.floor(startTimeMs / 1000)),
  ),
  timeless("container_spec_cpu_period", "CPU period of the container.", (usage) =>
    usage.cpuQuotaMicroseconds === undefined ? undefined : usage.cpuPeriodMicroseconds,
  ),
  timeless(
    "container_spec_cpu_quota",
    "CPU quota of the container.",
    (usage) => usage.cpuQuotaMicroseconds,
  ),
  timeless(
    "container_spec_memory_limit_bytes",
    "Memory limit for the container.",
    ({ memoryBytes, memoryLimitBytes = 0 }) =>
      memoryBytes === undefined ? undefined : memoryLimitBytes,
  ),
  [
    "container_cpu_usage_seconds_total",
    "counter",
    "Cumulative cpu time consumed in seconds.",
    (usage) => [{ value: seconds(usage.cpuNanoseconds), first: { cpu: "total" } }],
  ],
  counter(
    "container_cpu_user_seconds_total",
    "Cumulative user cpu time consumed in seconds.",
    (u) => seconds(u.cpuUserNanoseconds),
  ),
  counter(
    "container_cpu_system_seconds_total",
    "Cumulative system cpu time consumed in seconds.",
    (usage) => seconds(usage.cpuSystemNanoseconds),
  ),
  counter(
    "container_cpu_cfs_periods_total",
    "Number of elapsed enforcement period intervals.",
    (usage) => usage.cpuPeriods,
  ),
  counter(
    "container_cpu_cfs_throttled_periods_total",
    "Number of throttled period intervals.",
    (usage) => usage.cpuThrottledPeriods,
  ),
  counter(
    "container_cpu_cfs_throttled_seconds_total",
    "Total time duration the container has been throttled.",
    (usage) => seconds(usage.cpuThrottledNanoseconds),
  ),
  gauge("container_memory_cache", "Number of bytes of page cache memory.", (u) => u.cacheBytes),
  gauge("container_memory_rss", "Size of RSS in bytes.", (usage) => usage.rssBytes),
  gauge(
    "container_memory_kernel_usage",
    "Size of kernel memory allocated in bytes.",
    (usage) => usage.kernelBytes,
  ),
  gauge(
    "container_memory_mapped_file",
    "Size of memory mapped files in bytes.",
    (usage) => usage.mappedFileBytes,
  ),
  gauge("container_memory_swap", "Container swap usage in bytes.", (usage) => usage.swapBytes),
  gauge(
    "container_memory_usage_bytes",
    "Current memory usage in bytes, including all memory regardless of when it was accessed",
    (usage) => usage.memoryBytes,
  ),
  gauge(
    "container_memory_max_usage_bytes",
    "Maximum memory usage recorded in bytes",
    (usage) => usage.memoryPeakBytes,
  ),
  gauge(
    "container_memory_working_set_bytes",
    "Current working set in bytes.",
    (usage) => usage.workingSetBytes,
  ),
  gauge(
    "container_memory_total_active_file_bytes",
    "Current total active file in bytes.",
    (usage) => usage.activeFileBytes,
  ),
  gauge(
    "container_memory_total_inactive_file_bytes",
    "Current total inactive file in bytes.",
    (usage) => usage.inactiveFileBytes,
  ),
  [
    "container_memory_failures_total",
    "counter",
    "Cumulative count of memory allocation failures.",
    ({ pageFaults, majorPageFaults }) =>
      ["container", "hierarchy"].flatMap((scope) => [
        { value: pageFaults, first: { failure_type: "pgfault" }, last: { scope } },
        { value: majorPageFaults, first: { failure_type: "pgmajfault" }, last: { scope } },
      ]),
  ],
  counter(
    "container_oom_events_total",
    "Count of out of memory events observed for the container",
    (usage) => usage.oomKills,
  ),
  device("container_fs_reads_bytes_total", "Cumulative count of bytes read", "readBytes"),
  device("container_fs_reads_total", "Cumulative count of reads completed", "reads"),
  device("container_fs_writes_bytes_total", "Cumulative count of bytes written", "writtenBytes"),
  device("container_fs_writes_total", "Cumulative count of writes completed", "writes"),
  gauge(
    "container_processes",
    "Number of processes running inside the container.",
    (usage) => usage.processes,
  ),
  gauge(
    "container_threads",
    "Number of threads running inside the container",
    (usage) => usage.threads,
  ),
  gauge(
    "container_threads_max",
    "Maximum number of threads allowed inside the container, infinity if value is zero",
    ({ threads, threadLimit = 0 }) => (threads === undefined ? undefined : threadLimit),
  ),
  ...(["cpu", "memory", "io"] as const).flatMap(pressure),
];

function counter(
  name: string,
  help: string,
  value: (usage: Series["usage"]) => number | undefined,
): Family {
  return [name, "counter", help, (usage) => [{ value: value(usage) }]];
}

function gauge(
  name: string,
  help: string,
  value: (usage: Series["usage"]) => number | undefined,
): Family {
  return [name, "gauge", help, (usage) => [{ value: value(usage) }]];
}

function timeless(
  name: string,
  help: string,
  value: (usage: Series["usage"]) => number | undefined,
): Family {
  return [name, "gauge", help, (usage) => [{ value: value(usage), isTimeless: true }]];
}

function device(
  name: string,
  help: string,
  key: "readBytes" | "reads" | "writtenBytes" | "writes",
): Family {
  const read = ({ devices = [] }: Usage): readonly Figure[] =>
    devices.map((one) => ({ value: one[key], first: { device: `/dev/${one.device}` } }));
  return [name, "counter", help, read];
}

function pressure(resource: "cpu" | "memory" | "io"): readonly Family[] {
  const due = `due to ${resource === "memory" ? resource : resource.toUpperCase()} congestion.`;
  const total = (usage: Usage, kind: "some" | "full"): number | undefined => {
    const share = usage[`${resource}Pressure`]?.[kind];
    return share && share.totalMicroseconds / 1e6;
  };
  return [
    counter(
      `container_pressure_${resource}_stalled_seconds_total`,
      `Total time duration no tasks in the container could make progress ${due}`,
      (usage) => total(usage, "full"),
    ),
    counter(
      `container_pressure_${resource}_waiting_seconds_total`,
      `Total time duration tasks in the container have waited ${due}`,
      (usage) => total(usage, "some"),
    ),
  ];
}

function samples({ labels, usage }: Series, read: Family[3]): readonly MetricSample[] {
  return read(usage).flatMap(({ value, first, last, isTimeless = false }): MetricSample[] => {
    if (value === undefined) return [];
    const timeMs = isTimeless ? undefined : usage.timeMs;
    if (!first) return [{ labels: { ...labels }, value, timeMs }];
    const { container, ...others } = labels;
    return [{ labels: { container, ...first, ...others, ...last }, value, timeMs }];
  });
}

function seconds(nanoseconds: number | undefined): number | undefined {
  return nanoseconds === undefined ? undefined : nanoseconds / 1e9;
}

function seriesOf({ pod, containers, total }: KnownPodUsage): readonly Series[] {
  const startTimeMs = Date.parse(pod.status?.startTime ?? "");
  return [
    {
      labels: labelsOf(pod, ""),
      usage: Number.isFinite(startTimeMs) ? { ...total, startTimeMs } : total,
    },
    ...containers.map((usage) => ({ labels: labelsOf(pod, usage.name), usage })),
  ];
}

type Counter = Exclude<keyof InterfaceUsage, "name">;

const networkFamilies: readonly (readonly [name: string, help: string, key: Counter])[] = [
  ["container_network_receive_bytes_total", "Cumulative count of bytes received", "receivedBytes"],
  [
    "container_network_receive_packets_total",
    "Cumulative count of packets received",
    "receivedPackets",
  ],
  [
    "container_network_receive_packets_dropped_total",
    "Cumulative count of packets dropped while receiving",
    "receivedDropped",
  ],
  [
    "container_network_receive_errors_total",
    "Cumulative count of errors encountered while receiving",
    "receivedErrors",
  ],
  ["container_network_transmit_bytes_total", "Cumulative count of bytes transmitted", "sentBytes"],
  [
    "container_network_transmit_packets_total",
    "Cumulative count of packets transmitted",
    "sentPackets",
  ],
  [
    "container_network_transmit_packets_dropped_total",
    "Cumulative count of packets dropped while transmitting",
    "sentDropped",
  ],
  [
    "container_network_transmit_errors_total",
    "Cumulative count of errors encountered while transmitting",
    "sentErrors",
  ],
];

interface Network {
  readonly labels: Readonly<Record<string, string>>;
  readonly usage: InterfaceUsage;
  readonly timeMs: number;
}

function networkOf({ pod, network }: KnownPodUsage): readonly Network[] {
  if (!network) return [];
  const { timeMs, receivedBytes, sentBytes } = network;
  const { interfaces = [{ name: "eth0", receivedBytes, sentBytes }] } = network;
  const { container, id, image, ...others } = labelsOf(pod, "");
  return interfaces.map((usage) => ({
    labels: { container, id, image, interface: usage.name, ...others },
    usage,
    timeMs,
  }));
}

function networkSamples(key: Counter): (network: Network) => readonly MetricSample[] {
  return ({ labels, usage, timeMs }) => {
    const value = usage[key];
    return value === undefined ? [] : [{ labels, value, timeMs }];
  };
}

function labelsOf(pod: Pod, container: string): Labels {
  const { name, namespace, uid } = pod.metadata;
  const {
    containerStatuses = [],
    initContainerStatuses = [],
    ephemeralContainerStatuses = [],
  } = pod.status ?? {};
  const status = [
    ...containerStatuses,
    ...initContainerStatuses,
    ...ephemeralContainerStatuses,
  ].find((each) => each.name === container);
  const id = status?.containerID?.replace(/^.*:\/\//, "") ?? "";
  return {
    container,
    id: `/kubepods/pod${uid}${id === "" ? "" : `/${id}`}`,
    image: status?.image ?? "",
    name: id,
    namespace,
    pod: name,
  };
}
