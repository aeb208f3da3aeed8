import { maxMessageLength, type ReportedPod } from "@kip/agent-api";
import type { ContainerStatus, Pod } from "@kip/k8s-types";
import { defined } from "@kip/base";
import { endedStatuses } from "@kip/virtual-kubelet/status";
import type { CellState } from "../state/cell-state.ts";
import type { PodEnd } from "../state/cell.ts";
import { reportedLists, waitingLists } from "./container-lists.ts";
import type { ContainerLists } from "./container-status.ts";
import { withShortMessage } from "./short-message.ts";

/**
 * Maximum size of an end in a Cell, characters of JSON. With a larger one, the Cell might exceed the limit of the API server's
 * store.
 */
const maxEnd = 200 * 1024;

/** The pod's end from its cell's report. Undefined while the pod has not ended. */
export function reportedEnd(report: ReportedPod, state: CellState, pod: Pod): PodEnd | undefined {
  const { phase, reason, message } = report;
  if (phase !== "Succeeded" && phase !== "Failed") return undefined;
  return defined({
    phase,
    reason,
    message,
    ...ended(reportedLists(report, state, pod), state, pod),
  });
}

/** The statuses of a pod that ends while it waits for a cell. */
export function endedWaiting(state: CellState, pod: Pod): ContainerLists {
  return ended(waitingLists(state, pod), state, pod);
}

function ended(lists: ContainerLists, { status }: CellState, pod: Pod): ContainerLists {
  return endedStatuses(pod, status ?? pod.status ?? {}, lists);
}

/**
 * An end in the form that a Cell stores. Messages are cut to the kubelet's total limit, and the containers are left out if the
 * Cell would be too large to be written.
 */
export function storedEnd(end: PodEnd): PodEnd {
  const { initContainerStatuses, containerStatuses, ephemeralContainerStatuses } = end;
  const lists = { initContainerStatuses, containerStatuses, ephemeralContainerStatuses };
  const count = Object.values(lists).reduce((sum, list) => sum + (list?.length ?? 0), 0);
  const messageLength = maxMessageLength(count);
  const short = (list: readonly ContainerStatus[] | undefined): ContainerStatus[] | undefined =>
    list?.map((each) => shortened(each, messageLength));
  const { phase, reason, message } = end;
  const brief = defined({ phase, reason, message });
  const stored = defined({
    ...brief,
    initContainerStatuses: short(initContainerStatuses),
    containerStatuses: short(containerStatuses),
    ephemeralContainerStatuses: short(ephemeralContainerStatuses),
  });
  return JSON.stringify(stored).length > maxEnd ? brief : stored;
}

function shortened(status: ContainerStatus, messageLength: number): ContainerStatus {
  return defined({
    ...status,
    state: status.state && withShortMessage(status.state, messageLength),
    lastState: status.lastState && withShortMessage(status.lastState, 0),
  });
}
