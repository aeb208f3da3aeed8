import { cpuText, mebibytesText } from "../output/amounts.ts";
import type { Column } from "../output/table.ts";
import type { PodUsage } from "./stats-summary.ts";

/** The original's columns for metrics. */
export function metricColumns(hasNamespace: boolean): readonly Column<PodUsage>[] {
  return [
    ...(hasNamespace
      ? [{ name: "NAMESPACE", text: ({ podRef }: PodUsage) => podRef.namespace }]
      : []),
    { name: "NAME", text: ({ podRef }) => podRef.name },
    { name: "TIMESTAMP", text: ({ time }) => time },
    { name: "CPU", isNumber: true, text: ({ cpuNanoCores }) => cpuText(cpuNanoCores) },
    { name: "MEMORY", isNumber: true, text: ({ memoryBytes }) => mebibytesText(memoryBytes) },
    { name: "DISK", isNumber: true, text: ({ diskBytes }) => mebibytesText(diskBytes) },
    // A node measures from one request to the next, and does not report the length of that time.
    { name: "WINDOW", text: () => undefined },
  ];
}
