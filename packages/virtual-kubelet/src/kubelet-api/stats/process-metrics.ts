import { readdirSync } from "node:fs";
import type { MetricFamily } from "../../metrics/metrics-text.ts";

/** This process's resource usage, with the metric names of Prometheus' client libraries. */
export function processMetrics(startTimeMs: number): readonly MetricFamily[] {
  const { user, system } = process.cpuUsage();
  const gauge = (name: string, help: string, value: number): MetricFamily => ({
    name,
    type: "gauge",
    help,
    samples: [{ value }],
  });
  return [
    {
      name: "process_cpu_seconds_total",
      type: "counter",
      help: "Processor time used by this process, seconds",
      samples: [{ value: (user + system) / 1e6 }],
    },
    gauge(
      "process_resident_memory_bytes",
      "Memory of this process, bytes",
      process.memoryUsage.rss(),
    ),
    gauge("process_open_fds", "Files and sockets this process has open", openFiles()),
    gauge(
      "process_start_time_seconds",
      "When the server was started, seconds since the epoch",
      startTimeMs / 1000,
    ),
  ];
}

function openFiles(): number {
  try {
    return readdirSync("/proc/self/fd").length;
  } catch {
    return Number.NaN; // not Linux
  }
}
