import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { podWith } from "@kip/k8s-types/testing";
import { metricsText, type MetricFamily } from "../../metrics/metrics-text.ts";
import type { ContainerUsage, PodUsage } from "../../usage.ts";
import { cadvisorMetrics } from "./cadvisor-metrics.ts";
import { CpuRates } from "./cpu-rates.ts";
import { NodeCpu, nodeUsage, type NodeUsage } from "./node-usage.ts";
import { resourceMetrics } from "./resource-metrics.ts";
import { statsSummary } from "./summary.ts";

const timeMs = Date.UTC(2026, 0, 1, 0, 1);
const startTimeMs = Date.UTC(2026, 0, 1);
const share = { totalMicroseconds: 1_500_000, avg10: 1.5, avg60: 0.5, avg300: 0.1 };
const pressure = { some: share, full: { ...share, totalMicroseconds: 500_000 } };

const everything: ContainerUsage = {
  name: "app",
  timeMs,
  startTimeMs,
  cpuNanoseconds: 3e9,
  cpuUserNanoseconds: 2e9,
  cpuSystemNanoseconds: 1e9,
  cpuPeriods: 100,
  cpuThrottledPeriods: 7,
  cpuThrottledNanoseconds: 25e7,
  cpuQuotaMicroseconds: 50_000,
  cpuPeriodMicroseconds: 100_000,
  memoryBytes: 5000,
  workingSetBytes: 4000,
  memoryLimitBytes: 10_000,
  memoryPeakBytes: 6000,
  rssBytes: 3000,
  cacheBytes: 1500,
  mappedFileBytes: 300,
  kernelBytes: 200,
  activeFileBytes: 500,
  inactiveFileBytes: 1000,
  pageFaults: 40,
  majorPageFaults: 4,
  swapBytes: 10,
  swapLimitBytes: 100,
  oomKills: 1,
  processes: 2,
  threads: 3,
  threadLimit: 50,
  cpuPressure: pressure,
  memoryPressure: pressure,
  ioPressure: pressure,
  devices: [{ device: "vda", readBytes: 4096, writtenBytes: 8192, reads: 1, writes: 2 }],
  rootFileSystem: {
    timeMs,
    sizeBytes: 100,
    freeBytes: 60,
    usedBytes: 30,
    inodes: 10,
    usedInodes: 3,
  },
  logs: { timeMs, sizeBytes: 100, freeBytes: 60, usedBytes: 5, inodes: 10, usedInodes: 1 },
};

const podUsage: PodUsage = {
  uid: "u1",
  containers: [everything],
  total: { ...everything, processes: 0 },
  network: {
    timeMs,
    receivedBytes: 7,
    sentBytes: 8,
    interfaces: [
      {
        name: "eth0",
        receivedBytes: 7,
        receivedPackets: 3,
        receivedErrors: 1,
        receivedDropped: 0,
        sentBytes: 8,
        sentPackets: 4,
        sentErrors: 2,
        sentDropped: 0,
      },
    ],
  },
  volumes: [{ name: "data", timeMs, sizeBytes: 100, freeBytes: 60, usedBytes: 5, inodes: 10 }],
  ephemeralStorage: {
    timeMs,
    sizeBytes: 100,
    freeBytes: 60,
    usedBytes: 40,
    inodes: 10,
    freeInodes: 6,
  },
};

function usage(seconds = 3): NodeUsage {
  const pod = podWith({
    metadata: { name: 'p"1', namespace: "ns", uid: "u1" },
    status: { startTime: "2026-01-01T00:00:00Z" },
  });
  const container = { ...everything, cpuNanoseconds: seconds * 1e9 };
  const pods = [{ ...podUsage, containers: [container] }];
  const node = { nodeName: "n1", startTimeMs, nowMs: timeMs, cpu: new NodeCpu() };
  return nodeUsage({ pods }, [pod], node);
}

interface Sample {
  readonly name: string;
  readonly labels: readonly (readonly [string, string])[];
  readonly value: number;
  readonly timeMs: number | undefined;
}

/**
 * Parses the text format character by character as documented, and rejects text that a scraper would reject.
 * @see https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
 */
function parse(text: string): readonly Sample[] {
  assert.ok(text.endsWith("\n"), "the last line ends");
  const typed = new Set<string>();
  const seen = new Set<string>();
  return text
    .slice(0, -1)
    .split("\n")
    .flatMap((line): Sample[] => {
      const comment = /^# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)$/.exec(line);
      if (comment?.[1] === "TYPE") {
        assert.ok(!typed.has(comment[2] ?? ""), `a family twice: ${line}`);
        typed.add(comment[2] ?? "");
      }
      if (comment) return [];
      const sample = new Line(line).sample();
      assert.ok(typed.has(sample.name), `a sample before its type: ${line}`);
      const series = JSON.stringify([sample.name, sample.labels]);
      assert.ok(!seen.has(series), `a series twice: ${line}`);
      seen.add(series);
      return [sample];
    });
}

class Line {
  #rest: string;

  constructor(line: string) {
    this.#rest = line;
  }

  sample(): Sample {
    const name = this.#take(/^[a-zA-Z_:][a-zA-Z0-9_:]*/);
    const labels: (readonly [string, string])[] = [];
    if (this.#rest.startsWith("{")) {
      this.#take(/^\{/);
      while (!this.#rest.startsWith("}")) {
        const label = this.#take(/^[a-zA-Z_][a-zA-Z0-9_]*/);
        const quoted = this.#take(/^="(?:[^"\\]|\\["\\n])*"/).slice(2, -1);
        labels.push([label, quoted.replaceAll('\\"', '"')]);
        if (!this.#rest.startsWith("}")) this.#take(/^,/);
      }
      this.#take(/^\}/);
    }
    const value = Number(this.#take(/^ [-+0-9.e]+/));
    const time = this.#rest === "" ? undefined : Number(this.#take(/^ -?\d+$/));
    return { name, labels, value, timeMs: time };
  }

  #take(pattern: RegExp): string {
    const found = pattern.exec(this.#rest)?.[0];
    assert.ok(found !== undefined && found !== "", `${String(pattern)} at ${this.#rest}`);
    this.#rest = this.#rest.slice(found.length);
    return found;
  }
}

function textOf(families: Iterable<MetricFamily>): string {
  return metricsText([...families]);
}

describe("what scrapers read", () => {
  it("is valid text with a kubelet's order of labels, each series once", () => {
    for (const families of [resourceMetrics(usage()), cadvisorMetrics(usage())]) {
      const samples = parse(textOf(families));
      assert.ok(samples.length > 8);
      for (const { name, labels } of samples) {
        const names = labels.map(([label]) => label);
        assert.deepEqual(names, [...names].sort(), name);
      }
    }
    const [container] = parse(textOf(resourceMetrics(usage())));
    assert.deepEqual(container?.labels, [
      ["container", "app"],
      ["namespace", "ns"],
      ["pod", 'p"1'],
    ]);
  });

  it("is what metrics-server takes for a complete measurement: time, processor time and memory above 0", () => {
    const samples = parse(textOf(resourceMetrics(usage())));
    for (const prefix of ["node", "container", "pod"])
      for (const name of ["cpu_usage_seconds_total", "memory_working_set_bytes"]) {
        const sample = samples.find((one) => one.name === `${prefix}_${name}`);
        assert.ok((sample?.value ?? 0) > 0, name);
        assert.equal(sample?.timeMs, timeMs, name);
      }
    const start = samples.find(({ name }) => name === "container_start_time_seconds");
    assert.deepEqual([start?.value, start?.timeMs], [startTimeMs / 1000, undefined]);
    const swap = samples.filter(({ name }) => name.includes("swap"));
    assert.deepEqual(
      swap.map(({ name, value }) => [name, value]),
      [
        ["container_swap_limit_bytes", 100],
        ["container_swap_usage_bytes", 10],
        ["node_swap_usage_bytes", 10],
        ["pod_swap_usage_bytes", 10],
      ],
    );
  });

  it("has cAdvisor's names, units and labels of all that is measured", () => {
    const found = new Map(
      parse(textOf(cadvisorMetrics(usage())))
        .filter(({ labels }) => labels.some(([, value]) => value === "app") || labels.length === 7)
        .map(({ name, labels, value }) => {
          const others = labels.filter(([label]) => !baseLabels.has(label));
          return [[name, ...others.map((pair) => pair.join("="))].join(" "), value];
        }),
    );
    for (const [series, value] of Object.entries(cadvisorSeries))
      assert.equal(found.get(series), value, series);
  });

  it("keeps the node's processor time when pods have gone, and counts it once", () => {
    const cpu = new NodeCpu();
    const node = { nodeName: "n1", startTimeMs, nowMs: timeMs, cpu };
    const look = (figures: Readonly<Record<string, number>>): number | undefined => {
      const uids = Object.keys(figures);
      const pods = uids.map((uid) => podWith({ metadata: { name: uid, namespace: "n", uid } }));
      const measured = uids.map((uid) => {
        const total = { timeMs, cpuNanoseconds: figures[uid] };
        return { uid, containers: [], total };
      });
      return nodeUsage({ pods: measured }, pods, node).total.cpuNanoseconds;
    };
    assert.equal(look({ a: 5, b: 3 }), 8);
    assert.equal(look({ a: 6, b: 3 }), 9);
    assert.equal(look({ b: 4 }), 10);
    assert.equal(look({}), 10);
    assert.equal(look({ c: 1 }), 11);
    assert.equal(look({ c: 1 }), 11);
  });
});

const baseLabels = new Set(["container", "id", "image", "name", "namespace", "pod"]);

const cadvisorSeries: Readonly<Record<string, number>> = {
  container_last_seen: timeMs / 1000,
  container_start_time_seconds: startTimeMs / 1000,
  container_spec_cpu_period: 100_000,
  container_spec_cpu_quota: 50_000,
  container_spec_memory_limit_bytes: 10_000,
  "container_cpu_usage_seconds_total cpu=total": 3,
  container_cpu_user_seconds_total: 2,
  container_cpu_system_seconds_total: 1,
  container_cpu_cfs_periods_total: 100,
  container_cpu_cfs_throttled_periods_total: 7,
  container_cpu_cfs_throttled_seconds_total: 0.25,
  container_memory_cache: 1500,
  container_memory_rss: 3000,
  container_memory_kernel_usage: 200,
  container_memory_mapped_file: 300,
  container_memory_swap: 10,
  container_memory_usage_bytes: 5000,
  container_memory_max_usage_bytes: 6000,
  container_memory_working_set_bytes: 4000,
  container_memory_total_active_file_bytes: 500,
  container_memory_total_inactive_file_bytes: 1000,
  "container_memory_failures_total failure_type=pgfault scope=container": 40,
  "container_memory_failures_total failure_type=pgmajfault scope=hierarchy": 4,
  container_oom_events_total: 1,
  "container_fs_reads_bytes_total device=/dev/vda": 4096,
  "container_fs_reads_total device=/dev/vda": 1,
  "container_fs_writes_bytes_total device=/dev/vda": 8192,
  "container_fs_writes_total device=/dev/vda": 2,
  container_processes: 2,
  container_threads: 3,
  container_threads_max: 50,
  container_pressure_cpu_stalled_seconds_total: 0.5,
  container_pressure_cpu_waiting_seconds_total: 1.5,
  container_pressure_memory_stalled_seconds_total: 0.5,
  container_pressure_memory_waiting_seconds_total: 1.5,
  container_pressure_io_stalled_seconds_total: 0.5,
  container_pressure_io_waiting_seconds_total: 1.5,
  "container_network_receive_bytes_total interface=eth0": 7,
  "container_network_receive_packets_total interface=eth0": 3,
  "container_network_receive_packets_dropped_total interface=eth0": 0,
  "container_network_receive_errors_total interface=eth0": 1,
  "container_network_transmit_bytes_total interface=eth0": 8,
  "container_network_transmit_packets_total interface=eth0": 4,
  "container_network_transmit_packets_dropped_total interface=eth0": 0,
  "container_network_transmit_errors_total interface=eth0": 2,
};

describe("statsSummary()", () => {
  const time = "2026-01-01T00:01:00Z";
  const psi = (total: number) => ({ total, avg10: 1.5, avg60: 0.5, avg300: 0.1 });
  const stalls = { full: psi(500_000), some: psi(1_500_000) };

  it("has a kubelet's fields of all that is measured", () => {
    const summary = statsSummary(usage(), new CpuRates(), { onlyCpuAndMemory: false });
    const processor = { time, usageCoreNanoSeconds: 3e9, psi: stalls };
    const memory = {
      time,
      availableBytes: 6000,
      usageBytes: 5000,
      workingSetBytes: 4000,
      rssBytes: 3000,
      pageFaults: 40,
      majorPageFaults: 4,
      psi: stalls,
    };
    const swap = { time, swapAvailableBytes: 90, swapUsageBytes: 10 };
    const io = { time, psi: stalls };
    const eth0 = { name: "eth0", rxBytes: 7, rxErrors: 1, txBytes: 8, txErrors: 2 };
    const fs = { time, availableBytes: 60, capacityBytes: 100, inodes: 10 };
    assert.deepEqual(summary, {
      node: {
        nodeName: "n1",
        startTime: "2026-01-01T00:00:00Z",
        cpu: { time, usageCoreNanoSeconds: 3e9 },
        memory: {
          time,
          usageBytes: 5000,
          workingSetBytes: 4000,
          rssBytes: 3000,
          pageFaults: 40,
          majorPageFaults: 4,
        },
        swap: { time, swapUsageBytes: 10 },
        fs: { ...fs, usedBytes: 40, inodesFree: 6, inodesUsed: 4 },
      },
      pods: [
        {
          podRef: { name: 'p"1', namespace: "ns", uid: "u1" },
          startTime: "2026-01-01T00:00:00Z",
          containers: [
            {
              name: "app",
              startTime: "2026-01-01T00:00:00Z",
              cpu: processor,
              memory,
              swap,
              io,
              rootfs: { ...fs, usedBytes: 30, inodesUsed: 3 },
              logs: { ...fs, usedBytes: 5, inodesUsed: 1 },
            },
          ],
          cpu: processor,
          memory,
          swap,
          io,
          network: { time, ...eth0, interfaces: [eth0] },
          volume: [{ ...fs, usedBytes: 5, name: "data" }],
          "ephemeral-storage": { ...fs, usedBytes: 40, inodesFree: 6 },
          process_stats: { process_count: 2 },
        },
      ],
    });
  });

  it("has processor, memory and swap alone when it is asked for no more", () => {
    const text = JSON.stringify(statsSummary(usage(), new CpuRates(), { onlyCpuAndMemory: true }));
    assert.ok(text.includes("swapUsageBytes"));
    for (const key of ["network", "rootfs", "logs", "volume", "ephemeral", "io", "fs", "process"])
      assert.ok(!text.includes(`"${key}`), key);
  });
});
