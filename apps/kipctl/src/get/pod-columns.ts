import type { ContainerStatus, Pod } from "@kip/k8s-types";
import type { Cell } from "@kip/kip/cell";
import { ageText } from "../output/age.ts";
import type { Column } from "../output/table.ts";

/** A pod with its cell, if it already has one. */
export interface PodRow {
  readonly pod: Pod;
  readonly cell: Cell | undefined;
}

/** The original's columns for pods. Its nodes are cells here. */
export function podColumns(now: number, hasNamespace: boolean): readonly Column<PodRow>[] {
  return [
    ...(hasNamespace
      ? [{ name: "NAMESPACE", text: ({ pod }: PodRow) => pod.metadata.namespace }]
      : []),
    { name: "NAME", text: ({ pod }) => pod.metadata.name },
    { name: "UNITS", isNumber: true, text: ({ pod }) => String(pod.spec.containers.length) },
    { name: "RUNNING", isNumber: true, text: ({ pod }) => String(runningUnits(pod)) },
    { name: "STATUS", text: ({ pod }) => podStatusText(pod) },
    { name: "RESTARTS", isNumber: true, text: ({ pod }) => String(restarts(pod)) },
    { name: "NODE", text: ({ cell }) => cell?.metadata.name },
    { name: "IP", text: ({ pod }) => pod.status?.podIP },
    { name: "AGE", text: ({ pod }) => ageText(pod.metadata.creationTimestamp, now) },
    { name: "INSTANCE-TYPE", isWide: true, text: ({ cell }) => cell?.spec.instanceType },
    { name: "VIRTUAL-NODE", isWide: true, text: ({ pod }) => pod.spec.nodeName },
  ];
}

function statuses(pod: Pod): readonly ContainerStatus[] {
  return pod.status?.containerStatuses ?? [];
}

function runningUnits(pod: Pod): number {
  return statuses(pod).filter(({ state }) => state?.running !== undefined).length;
}

function restarts(pod: Pod): number {
  return statuses(pod).reduce((sum, { restartCount }) => sum + restartCount, 0);
}

/** The phase, or a more specific state: that the pod is being deleted, why it ended, or why a container is waiting. */
export function podStatusText(pod: Pod): string {
  if (pod.metadata.deletionTimestamp !== undefined) return "Terminating";
  const { phase = "Unknown", reason } = pod.status ?? {};
  if (reason !== undefined) return reason;
  // What a failed init container has kept from running still waits.
  if (phase === "Failed") return phase;
  const init = pod.status?.initContainerStatuses ?? [];
  const waiting = [...init, ...statuses(pod)].find(
    ({ state }) => state?.waiting?.reason !== undefined,
  );
  return waiting?.state?.waiting?.reason ?? phase;
}
