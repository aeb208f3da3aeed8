// The metrics that kip exports to Prometheus, for the test of deploy/observability. They are created by the same classes as in
// kip.
import { readFileSync } from "node:fs";
import path from "node:path";
import { cloudErrorCodes, cloudOperations } from "@kip/cloud";
import { cellPhases, startPhases } from "@kip/kip/cell";
import { NodeMetrics } from "@kip/virtual-kubelet/command";
import { metricsText } from "@kip/virtual-kubelet/telemetry";
import { KipMetrics } from "../packages/kip/src/metrics/kip-metrics.ts";
import { StandbyMetrics } from "../packages/kip/src/standby/standby-metrics.ts";
import { processMetrics } from "../packages/virtual-kubelet/src/kubelet-api/stats/process-metrics.ts";
import { RequestMetrics } from "../packages/virtual-kubelet/src/kubelet-api/stats/request-metrics.ts";

/** Labels of metrics by name, with all values of the labels that have a fixed set. */
export type Labels = ReadonlyMap<string, ReadonlySet<string>>;

/** Labels that Prometheus itself adds to all metrics. */
export const targetLabels: Labels = new Map(
  ["namespace", "job", "instance"].map((label) => [label, new Set<string>()]),
);

/** All metrics of kip by name with their labels. Histograms are listed with their suffixes. */
export function exportedMetrics(): Map<string, Labels> {
  const all = new Map<string, Map<string, Set<string>>>();
  for (const line of exposition().split("\n")) {
    const [, name, labels = ""] = /^(\w+)(?:\{(.*)\})? \S+$/.exec(line) ?? [];
    if (name === undefined) continue;
    const known = all.get(name) ?? new Map<string, Set<string>>();
    for (const [, label = "", value = ""] of labels.matchAll(/(\w+)="([^"]*)"/g))
      known.set(label, (known.get(label) ?? new Set()).add(value));
    all.set(name, known);
  }
  return all;
}

/** At least one sample of each metric, and of each label value that rules may name. */
function exposition(): string {
  const node = new NodeMetrics();
  for (const result of ["ok", "failed"] as const) node.step("apply", result, 1);
  node.podStarted(1);
  node.apiRequest("GET", "200", 1);
  const kip = kipMetrics();
  const cells = cellPhases.map((phase) => ({
    metadata: { uid: phase },
    spec: { launchType: "spot", instanceType: "m5.large", pricePerHour: 1 } as const,
    status: { phase },
  }));
  const standbyStates = [
    { isReady: true, isEnding: false },
    { isReady: false, isEnding: true },
    { isReady: false, isEnding: false },
  ].map((state) => ({
    ...state,
    cell: { spec: { instanceType: "m5.large", launchType: "spot" } as const },
  }));
  node.providerFamilies = () => [
    ...kip.families(cells),
    ...new StandbyMetrics().families(standbyStates),
  ];
  const kubelet = new RequestMetrics();
  for (const isLong of [true, false]) {
    kubelet.begin();
    kubelet.end({ method: "GET", route: "pods", isLong, durationMs: 1 });
  }
  kubelet.webSocket("exec");
  return node.text() + metricsText([...kubelet.families(), ...processMetrics(0)]);
}

function kipMetrics(): KipMetrics {
  const metrics = new KipMetrics();
  const page = readFileSync(path.join(import.meta.dirname, "../docs/pod-events.md"), "utf8");
  for (const [, reason = ""] of page.matchAll(/`([A-Z][A-Za-z]+)`/g))
    for (const type of ["Normal", "Warning"] as const) metrics.event(type, reason);
  for (const operation of cloudOperations)
    for (const result of ["ok", "error", ...cloudErrorCodes])
      metrics.cloudRequest(operation, result, 1);
  metrics.started({ startMs: Object.fromEntries(startPhases.map((phase) => [phase, 1])) });
  return metrics;
}
