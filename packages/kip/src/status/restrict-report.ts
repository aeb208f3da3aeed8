import type { ContainerReport, ReportedPod } from "@kip/agent-api";
import type { Pod } from "@kip/k8s-types";

/**
 * A cell's report, restricted to the pod's containers without duplicates. So a hostile cell cannot fill the pod's status, its
 * Cell or the metrics with others. Unchanged while the pod is unknown.
 */
export function restrictReportToPod(report: ReportedPod, pod: Pod | undefined): ReportedPod {
  if (!pod?.spec) return report;
  const { initContainers = [], containers, ephemeralContainers = [] } = pod.spec;
  return {
    ...report,
    initContainers: known(report.initContainers, initContainers),
    containers: known(report.containers, containers),
    ephemeralContainers: known(report.ephemeralContainers, ephemeralContainers),
  };
}

/** The names of all containers of a pod. */
export function containerNames({ spec }: Pod): ReadonlySet<string> {
  const { initContainers = [], containers, ephemeralContainers = [] } = spec;
  return new Set(
    [...initContainers, ...containers, ...ephemeralContainers].map(({ name }) => name),
  );
}

function known(
  reports: readonly ContainerReport[],
  specified: readonly { readonly name: string }[],
): readonly ContainerReport[] {
  const byName = new Map(reports.map((report) => [report.name, report]));
  return specified.flatMap(({ name }) => byName.get(name) ?? []);
}
