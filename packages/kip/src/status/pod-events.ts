import { defined } from "@kip/base";
import type { PodReport } from "@kip/agent-api";
import type { PodEvent } from "@kip/virtual-kubelet";

/** The agent's events as Kubernetes events, with their numbers. */
export function eventsOfReport(
  report: PodReport,
  podUid: string,
): readonly { readonly sequence: number; readonly time: string; readonly event: PodEvent }[] {
  const isInit = new Set(report.initContainers.map(({ name }) => name));
  return report.events.map(({ sequence, time, type, reason, message, container }) => {
    const list = container !== undefined && isInit.has(container) ? "initContainers" : "containers";
    return {
      sequence,
      time,
      event: defined({
        uid: podUid,
        type,
        reason,
        message,
        fieldPath: container === undefined ? undefined : `spec.${list}{${container}}`,
      }),
    };
  });
}
