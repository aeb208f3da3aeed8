import { defined } from "@kip/base";
import type { PodReport } from "@kip/agent-api";
import { wireTime } from "@kip/k8s-client";
import type { Pod, PodCondition, PodStatus } from "@kip/k8s-types";
import {
  goneStatuses,
  mergeConditions,
  podConditions,
  qosClass,
  type ConditionVerdict,
} from "@kip/virtual-kubelet";
import { podAddress, wasClaimed, type CellMemory } from "../state/cell-memory.ts";
import { restartPolicy } from "../dispatch/desired-pod.ts";
import { disruptionVerdict } from "./disruption.ts";
import {
  latestLists,
  reportedLists,
  waitingLists,
  type ContainerLists,
} from "./container-lists.ts";

/** Condition that tells what a pod waits for before its containers can start. */
export const cellReadyCondition = "kip.elotl.co/CellReady";

const ownTypes: ReadonlySet<string> = new Set([
  "PodReadyToStartContainers",
  "Initialized",
  "Ready",
  "ContainersReady",
  "PodScheduled",
  cellReadyCondition,
]);

/** What {@link podStatus} needs besides the pod and its cell. */
export interface PodStatusContext {
  readonly nodeIp: string;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/**
 * The status of a pod as the API shows it; undefined while kip cannot say (a cell that already has
 * the pod has not reported yet).
 */
export function podStatus(
  memory: CellMemory,
  pod: Pod,
  context: PodStatusContext,
): PodStatus | undefined {
  if (isUntold(memory)) return undefined;
  const { end, waitingFor } = memory;
  const report = presentReport(memory);
  const phase = end?.phase ?? shownPhase(memory, pod, report);
  const failure = phase === "Failed" ? waitingFor : undefined;
  const why = end ?? (report?.reason === undefined ? failure : report);
  const containers = containerStatuses(memory, pod, { ...context, report });
  return defined({
    phase,
    qosClass: qosClass(pod),
    hostIP: context.nodeIp,
    hostIPs: [{ ip: context.nodeIp }],
    ...addresses(memory, pod, report),
    startTime: startTime(memory, pod, context),
    reason: why?.reason,
    message: why?.message,
    conditions: conditions(memory, pod, {
      phase,
      ...containers,
      now: wireTime(context.now),
      isReadyToStart: report !== undefined,
    }),
    ...containers,
  });
}

/** Whether what is known here is not for the API. */
function isUntold(memory: CellMemory): boolean {
  const { report, isPodFinished, isEndInApi, end, waitingFor, status, wanted } = memory;
  if (end) return false;
  // Another one has ended the pod in the API, which has the status that it is to keep.
  if (isEndInApi) return true;
  if (!report && !isPodFinished) return wasClaimed(status) && !isLeft(memory);
  // The end of a pod that no cell had is published with its reason, and stays when its cell is forgotten.
  if (!report) return waitingFor === undefined;
  // Its Cell was deleted: that its containers end is no end of the pod.
  const hasEnded = report.phase === "Succeeded" || report.phase === "Failed";
  return wanted.kind === "run" && !isPodFinished && (hasEnded || status.phase === "Draining");
}

/** Whether the pod goes on without the cell it has: that cell's machine is gone, or is being ended. */
function isLeft({ wanted, isPodFinished, instanceState, status, pod }: CellMemory): boolean {
  if (wanted.kind !== "run" || isPodFinished || !pod) return false;
  // It does not go on: what is known of it stays until its end is written.
  if (restartPolicy(pod) === "Never") return false;
  return instanceState === "gone" || status.phase === "Terminating";
}

/** The report of the cell that has the pod. */
function presentReport(memory: CellMemory): PodReport | undefined {
  return isLeft(memory) ? undefined : memory.report;
}

/** As with a kubelet, a pod that ran does not go back to Pending. */
function shownPhase(memory: CellMemory, pod: Pod, report: PodReport | undefined): string {
  const phase = report?.phase ?? (memory.isPodFinished ? "Failed" : "Pending");
  const before = memory.publishedStatus?.phase ?? pod.status?.phase;
  return phase === "Pending" && before === "Running" ? before : phase;
}

/** The time that was told first: a replaced cell or a restart of kip does not change it. */
function startTime({ report, startTime: told }: CellMemory, pod: Pod, { now }: PodStatusContext) {
  return told ?? pod.status?.startTime ?? report?.startTime ?? wireTime(now);
}

function conditions(
  memory: CellMemory,
  pod: Pod,
  facts: ContainerLists & {
    readonly phase: string;
    readonly now: string;
    readonly isReadyToStart: boolean;
  },
): PodCondition[] {
  const { waitingFor, conditions: told = [] } = memory;
  // The pod is as old as its last apply; what was told since is newer. Gates are looked up in it.
  const api = pod.status?.conditions ?? [];
  const others = api.filter(({ type }) => !told.some((each) => each.type === type));
  const known = [...told, ...others];
  const seen = { ...pod, status: { ...pod.status, conditions: known } };
  const usual = podConditions(seen, facts);
  const cellReady: readonly ConditionVerdict[] = facts.isReadyToStart
    ? [{ type: cellReadyCondition, status: "True" }]
    : [
        {
          type: cellReadyCondition,
          status: "False",
          reason: waitingFor?.reason ?? "CellStarting",
          message: waitingFor?.message ?? "The machine of this pod is being started",
        },
      ];
  const disruption = disruptionVerdict(memory, known);
  const isOwn = (type: string): boolean =>
    ownTypes.has(type) || disruption.some((verdict) => verdict.type === type);
  // Conditions of others are theirs to write.
  const all = mergeConditions(
    mergeConditions(usual, disruption, facts.now),
    // A pod that has ended waits for no cell.
    memory.end && !facts.isReadyToStart ? [] : cellReady,
    facts.now,
  );
  return all.filter(({ type }) => isOwn(type));
}

function addresses(
  memory: CellMemory,
  pod: Pod,
  report: PodReport | undefined,
): Pick<PodStatus, "podIP" | "podIPs"> {
  const { podIP = "" } = memory.publishedStatus ?? pod.status ?? {};
  const known = memory.end ? podIP : "";
  const own = report ? podAddress(memory, pod.spec.hostNetwork === true) : "";
  const ip = own === "" ? known : own;
  return ip === "" ? {} : { podIP: ip, podIPs: [{ ip }] };
}

function containerStatuses(
  memory: CellMemory,
  pod: Pod,
  { now, report }: PodStatusContext & { readonly report: PodReport | undefined },
): ContainerLists {
  const { isPodFinished, end } = memory;
  if (end?.containerStatuses) {
    const { initContainerStatuses, containerStatuses: regular, ephemeralContainerStatuses } = end;
    return defined({
      initContainerStatuses,
      containerStatuses: regular,
      ephemeralContainerStatuses,
    });
  }
  // Nothing runs on a cell that is gone.
  if (end ?? (!report && isPodFinished))
    return goneStatuses(latestLists(memory, pod), wireTime(now));
  return report ? reportedLists(report, memory, pod) : waitingLists(memory, pod);
}
