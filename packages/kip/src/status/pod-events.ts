import { defined } from "@kip/base";
import type { PodReport } from "@kip/agent-api";
import type { PodEvent } from "@kip/virtual-kubelet";

/** Converts the agent's events to Kubernetes events, with their numbers. */
export function eventsOfReport(
  report: PodReport,
  podUid: string,
): readonly { readonly sequence: number; readonly time: string; readonly event: PodEvent }[] {
  const initContainers = new Set(report.initContainers.map(({ name }) => name));
  const ephemeralContainers = new Set(report.ephemeralContainers.map(({ name }) => name));
  const listOf = (name: string): string => {
    if (initContainers.has(name)) return "initContainers";
    return ephemeralContainers.has(name) ? "ephemeralContainers" : "containers";
  };
  return report.events.map(({ sequence, time, type, reason, message, container }) => {
    return {
      sequence,
      time,
      event: defined({
        uid: podUid,
        type,
        reason,
        message,
        fieldPath: container === undefined ? undefined : `spec.${listOf(container)}{${container}}`,
      }),
    };
  });
}
