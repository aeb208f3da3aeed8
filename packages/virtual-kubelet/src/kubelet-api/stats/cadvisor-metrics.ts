import type { Pod } from "@kip/k8s-types";
import type { ContainerUsage } from "../../usage.ts";
import type { MetricFamily, MetricSample } from "../../metrics/metrics-text.ts";
import type { NodeUsage } from "./node-usage.ts";

/**
 * The families of `/metrics/cadvisor` that dashboards are built on, as far as they are known here.
 * @see https://github.com/google/cadvisor/blob/master/docs/storage/prometheus.md
 */
export function cadvisorMetrics({ pods }: NodeUsage): readonly MetricFamily[] {
  const containers = pods.flatMap(({ pod, containers: usages }) =>
    usages.map((usage) => ({ usage, labels: labelsOf(pod, usage.name) })),
  );
  const family = familyOf(containers);
  return [
    family(
      "container_cpu_usage_seconds_total",
      "counter",
      "Processor time used, seconds",
      (usage) => seconds(usage.cpuNanoseconds, 1e9),
      { cpu: "total" },
    ),
    family(
      "container_last_seen",
      "gauge",
      "When the container was last measured, seconds since the epoch",
      (usage) => seconds(usage.timeMs, 1000),
    ),
    family(
      "container_memory_usage_bytes",
      "gauge",
      "Memory in use, file cache included, bytes",
      (usage) => usage.memoryBytes,
    ),
    family(
      "container_memory_working_set_bytes",
      "gauge",
      "Working set, bytes",
      (usage) => usage.workingSetBytes,
    ),
    family(
      "container_start_time_seconds",
      "gauge",
      "When the container was started, seconds since the epoch",
      (usage) => seconds(usage.startTimeMs, 1000),
    ),
    ...networkFamilies(pods),
  ];
}

interface Measured {
  readonly usage: ContainerUsage;
  readonly labels: Readonly<Record<string, string>>;
}

/** Makes families with a figure of each container; those without it are left out. */
function familyOf(containers: readonly Measured[]) {
  return (
    name: string,
    type: MetricFamily["type"],
    help: string,
    value: (usage: ContainerUsage) => number | undefined,
    more: Readonly<Record<string, string>> = {},
  ): MetricFamily => ({
    name,
    type,
    help,
    samples: containers.flatMap(({ usage, labels }): MetricSample[] => {
      const figure = value(usage);
      if (figure === undefined) return [];
      return [{ labels: { ...labels, ...more }, value: figure, timeMs: usage.timeMs }];
    }),
  });
}

function seconds(figure: number | undefined, divisor: number): number | undefined {
  return figure === undefined ? undefined : figure / divisor;
}

function networkFamilies(pods: NodeUsage["pods"]): readonly MetricFamily[] {
  const family = (name: string, help: string, key: "receivedBytes" | "sentBytes") => ({
    name,
    type: "counter" as const,
    help,
    samples: pods.flatMap(({ pod, network }): MetricSample[] => {
      if (network === undefined) return [];
      const labels = { ...labelsOf(pod, ""), interface: "eth0" };
      return [{ labels, value: network[key], timeMs: network.timeMs }];
    }),
  });
  return [
    family("container_network_receive_bytes_total", "Bytes received by a pod", "receivedBytes"),
    family("container_network_transmit_bytes_total", "Bytes sent by a pod", "sentBytes"),
  ];
}

function labelsOf(pod: Pod, container: string): Readonly<Record<string, string>> {
  const { name, namespace, uid } = pod.metadata;
  const { containerStatuses = [], initContainerStatuses = [] } = pod.status ?? {};
  const status = [...containerStatuses, ...initContainerStatuses].find(
    (each) => each.name === container,
  );
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
