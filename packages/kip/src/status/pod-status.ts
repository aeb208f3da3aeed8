import { defined } from "@kip/base";
import type { ReportedPod } from "@kip/agent-api";
import { wireTime } from "@kip/k8s-client";
import type { Pod, PodCondition, PodStatus } from "@kip/k8s-types";
import { podConditions } from "@kip/virtual-kubelet";
import {
  goneStatuses,
  mergeConditions,
  qosClass,
  type ConditionVerdict,
} from "@kip/virtual-kubelet/status";
import {
  hasEnded,
  hostAddresses,
  podAddresses,
  wasClaimed,
  type CellState,
} from "../state/cell-state.ts";
import { restartPolicy } from "../state/restart-policy.ts";
import { conditionsOutOfReach } from "./out-of-reach.ts";
import { resizeVerdicts } from "./resize-conditions.ts";
import { disruptionVerdict } from "./disruption.ts";
import { latestLists, reportedLists, waitingLists } from "./container-lists.ts";
import type { ContainerLists } from "./container-status.ts";

/** Condition that shows what a pod is waiting for before its containers can start. */
export const cellReadyCondition = "kip.elotl.co/CellReady";

/** The reason for waiting while no other one is known. */
const cellStarting = {
  reason: "CellStarting",
  message: "The machine of this pod is being started",
} as const;

const ownTypes: ReadonlySet<string> = new Set([
  "PodReadyToStartContainers",
  "Initialized",
  "Ready",
  "ContainersReady",
  "PodScheduled",
  cellReadyCondition,
]);

/** Inputs for the parts of a status. */
interface StatusFacts {
  readonly state: CellState;
  readonly pod: Pod;
  /** The report of the cell that has the pod. */
  readonly report: ReportedPod | undefined;
  /** As `metav1.Time`. */
  readonly now: string;
}

/**
 * The status of a pod for the API. Undefined while it is unknown, because a cell that already has the pod has not reported yet.
 * Continues `state.status`, the previous one.
 */
export function podStatus(state: CellState, pod: Pod, nowMs: number): PodStatus | undefined {
  if (isNotForApi(state)) return statusOutOfReach(state, pod, wireTime(nowMs));
  const { end, wait } = state;
  const report = isAbandoned(state) ? undefined : state.agent.report;
  const facts = { state, pod, report, now: wireTime(nowMs) };
  const phase = end.podEnd?.phase ?? shownPhase(facts);
  // As in a kubelet, a pod that is to end for a reason only shows it when all containers have ended.
  const failure = report ?? wait.reason;
  const why = end.podEnd ?? (phase === "Failed" ? failure : undefined);
  const containers = containerStatuses(facts);
  return defined({
    phase,
    qosClass: qosClass(pod),
    ...cellAddresses(facts),
    ...addresses(facts),
    // A replaced cell or a restart of kip does not change the first reported time.
    startTime: state.status?.startTime ?? pod.status?.startTime ?? report?.startTime ?? facts.now,
    reason: why?.reason,
    message: why?.message,
    conditions: conditions(facts, { phase, ...containers }),
    ...containers,
  });
}

/**
 * The known status, set to not ready, of a pod whose cell has not responded to this process of kip yet. Undefined for other
 * pods.
 */
function statusOutOfReach(state: CellState, pod: Pod, now: string): PodStatus | undefined {
  const { agent, cell, end, pod: wanted } = state;
  const status = state.status ?? pod.status;
  const isUnknown = agent.isOutOfReach && !agent.report && !end.isInApi;
  if (!isUnknown || !cell.object || status?.phase !== "Running" || wanted.wanted.kind !== "run")
    return undefined;
  const known = status.conditions ?? [];
  const own = known.filter(({ type }) => ownTypes.has(type));
  const { name } = cell.object.metadata;
  return { ...status, conditions: conditionsOutOfReach(own, name, { known, now }) };
}

/** Whether the status is unknown, or must not replace the API's. */
function isNotForApi(state: CellState): boolean {
  const { end, wait, cell, pod } = state;
  const { report } = state.agent;
  if (end.podEnd) return false;
  // Another client ended the pod in the API. Its status is kept.
  if (end.isInApi) return true;
  if (!report && !end.isPodFinished) return wasClaimed(cell.status) && !isAbandoned(state);
  // The end of a pod that never ran on a cell is published with its reason, and stays when its cell is forgotten.
  if (!report) return wait.reason === undefined;
  // If only the Cell was deleted, the end of its containers is not the end of the pod.
  const isStopping = hasEnded(report) || cell.status.phase === "Draining";
  return pod.wanted.kind === "run" && !end.isPodFinished && isStopping;
}

/** Whether the pod will get another cell, because its cell's machine is gone or is being ended. */
export function isAbandoned({ pod, end, machine, cell }: CellState): boolean {
  if (pod.wanted.kind !== "run" || end.isPodFinished || !pod.object) return false;
  // It gets no other cell. Its status stays until its end is written.
  if (restartPolicy(pod.object) === "Never") return false;
  return machine.state === "gone" || cell.status.phase === "Terminating";
}

/** As in a kubelet, a pod that ran does not go back to Pending. */
function shownPhase({ state, pod, report }: StatusFacts): string {
  const phase = report?.phase ?? (state.end.isPodFinished ? "Failed" : "Pending");
  const before = state.status?.phase ?? pod.status?.phase;
  return phase === "Pending" && before === "Running" ? before : phase;
}

function conditions(
  { state, pod, report, now }: StatusFacts,
  shown: ContainerLists & { readonly phase: string },
): PodCondition[] {
  const { reason, message } = state.wait.reason ?? cellStarting;
  // The pod object is from its last apply, and the published conditions are newer. Readiness gates are looked up in both.
  const published = state.status?.conditions ?? [];
  const api = pod.status?.conditions ?? [];
  const others = api.filter(({ type }) => !published.some((each) => each.type === type));
  const known = [...published, ...others];
  const seen = { ...pod, status: { ...pod.status, conditions: known } };
  const isReadyToStart = report !== undefined && report.isUnprepared !== true;
  const usual = podConditions(seen, { ...shown, now, isReadyToStart });
  const type = cellReadyCondition;
  const cellReady: ConditionVerdict = report
    ? { type, status: "True" }
    : { type, status: "False", reason, message };
  const disruption = disruptionVerdict(state, report, known);
  // A pod that has ended is not waiting for a cell.
  const ready = state.end.podEnd && !report ? [] : [cellReady];
  const resizes = state.end.podEnd ? [] : resizeVerdicts(report);
  const verdicts = [...disruption, ...resizes, ...ready];
  // Only kip's own conditions are written.
  const before = known.filter((each) => verdicts.some(({ type: own }) => own === each.type));
  const merged = mergeConditions([...usual, ...before], verdicts, now);
  const { agent, cell } = state;
  if (!agent.isOutOfReach || !report || !cell.object) return merged;
  return conditionsOutOfReach(merged, cell.object.metadata.name, { known, now });
}

/**
 * The pod's addresses, from the moment when its cell has it. Showing them earlier would cost one more write for each start.
 * They are kept when the cell is gone.
 */
function cellAddresses({ state, pod, report }: StatusFacts): Pick<PodStatus, "hostIP" | "hostIPs"> {
  const own = report ? hostAddresses(state).map((ip) => ({ ip })) : [];
  const { hostIP = "", hostIPs = [{ ip: hostIP }] } = state.status ?? pod.status ?? {};
  if (own[0]) return { hostIP: own[0].ip, hostIPs: own };
  return hostIP === "" ? {} : { hostIP, hostIPs };
}

function addresses({ state, pod, report }: StatusFacts): Pick<PodStatus, "podIP" | "podIPs"> {
  const published = state.status ?? pod.status;
  const own = report ? podAddresses(state.machine, pod.spec.hostNetwork === true) : [];
  const known = state.end.podEnd ? published : undefined;
  const all = own.length > 0 ? own.map((ip) => ({ ip })) : podIpsOf(known);
  return all[0] ? { podIP: all[0].ip, podIPs: all } : {};
}

function podIpsOf(status: PodStatus | undefined): readonly { readonly ip: string }[] {
  const ip = status?.podIP ?? "";
  return ip === "" ? [] : (status?.podIPs ?? [{ ip }]);
}

function containerStatuses({ state, pod, report, now }: StatusFacts): ContainerLists {
  const { isPodFinished, podEnd } = state.end;
  if (podEnd?.containerStatuses) {
    const {
      initContainerStatuses,
      containerStatuses: regular,
      ephemeralContainerStatuses,
    } = podEnd;
    return defined({
      initContainerStatuses,
      containerStatuses: regular,
      ephemeralContainerStatuses,
    });
  }
  // Nothing runs on a cell that is gone.
  if (podEnd ?? (!report && isPodFinished)) return goneStatuses(pod, latestLists(state, pod), now);
  return report ? reportedLists(report, state, pod) : waitingLists(state, pod);
}
