import { defined } from "@kip/base";
import type { PodReport } from "@kip/agent-api";
import { wireTime } from "@kip/k8s-client";
import type { Pod, PodCondition, PodStatus } from "@kip/k8s-types";
import { podConditions } from "@kip/virtual-kubelet";
import {
  goneStatuses,
  mergeConditions,
  qosClass,
  type ConditionVerdict,
} from "@kip/virtual-kubelet/status";
import { podAddress, wasClaimed, type CellMemory } from "../state/cell-memory.ts";
import { restartPolicy } from "../dispatch/desired-pod.ts";
import { disruptionVerdict } from "./disruption.ts";
import {
  latestLists,
  reportedLists,
  waitingLists,
  type ContainerLists,
} from "./container-lists.ts";

/** Condition that says what a pod waits for before its containers can start. */
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
 * The status of a pod for the API; undefined while it is unknown (a cell that already has the pod has
 * not reported yet).
 */
export function podStatus(
  memory: CellMemory,
  pod: Pod,
  context: PodStatusContext,
): PodStatus | undefined {
  if (isNotForApi(memory)) return undefined;
  const { end, waitReason } = memory;
  const report = presentReport(memory);
  const phase = end?.phase ?? shownPhase(memory, pod, report);
  const failure = phase === "Failed" ? waitReason : undefined;
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

/** Whether the status is unknown here, or must not replace the API's. */
function isNotForApi(memory: CellMemory): boolean {
  const { report, isPodFinished, isEndInApi, end, waitReason, status, wanted } = memory;
  if (end) return false;
  // Another client ended the pod in the API: its status stays.
  if (isEndInApi) return true;
  if (!report && !isPodFinished) return wasClaimed(status) && !isAbandoned(memory);
  // The end of a pod that no cell ran is published with its reason, and stays when its cell is forgotten.
  if (!report) return waitReason === undefined;
  // Its Cell was deleted: the end of its containers is not the end of the pod.
  const hasEnded = report.phase === "Succeeded" || report.phase === "Failed";
  return wanted.kind === "run" && !isPodFinished && (hasEnded || status.phase === "Draining");
}

/** Whether the pod will get another cell: the machine of its cell is gone, or is being ended. */
function isAbandoned({ wanted, isPodFinished, instanceState, status, pod }: CellMemory): boolean {
  if (wanted.kind !== "run" || isPodFinished || !pod) return false;
  // It gets no other cell: its status stays until its end is written.
  if (restartPolicy(pod) === "Never") return false;
  return instanceState === "gone" || status.phase === "Terminating";
}

/** The report of the cell that has the pod. */
function presentReport(memory: CellMemory): PodReport | undefined {
  return isAbandoned(memory) ? undefined : memory.report;
}

/** As with a kubelet, a pod that ran does not go back to Pending. */
function shownPhase(memory: CellMemory, pod: Pod, report: PodReport | undefined): string {
  const phase = report?.phase ?? (memory.isPodFinished ? "Failed" : "Pending");
  const before = memory.publishedStatus?.phase ?? pod.status?.phase;
  return phase === "Pending" && before === "Running" ? before : phase;
}

/** The start time that was reported first: a replaced cell or a restart of kip does not change it. */
function startTime(
  { report, startTime: published }: CellMemory,
  pod: Pod,
  { now }: PodStatusContext,
) {
  return published ?? pod.status?.startTime ?? report?.startTime ?? wireTime(now);
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
  const { waitReason, conditions: published = [] } = memory;
  // The pod dates from its last apply; the published conditions are newer. Readiness gates are looked up in both.
  const api = pod.status?.conditions ?? [];
  const others = api.filter(({ type }) => !published.some((each) => each.type === type));
  const known = [...published, ...others];
  const seen = { ...pod, status: { ...pod.status, conditions: known } };
  const usual = podConditions(seen, facts);
  const cellReady: readonly ConditionVerdict[] = facts.isReadyToStart
    ? [{ type: cellReadyCondition, status: "True" }]
    : [
        {
          type: cellReadyCondition,
          status: "False",
          reason: waitReason?.reason ?? "CellStarting",
          message: waitReason?.message ?? "The machine of this pod is being started",
        },
      ];
  const disruption = disruptionVerdict(memory, known);
  const isOwn = (type: string): boolean =>
    ownTypes.has(type) || disruption.some((verdict) => verdict.type === type);
  // Only kip's own conditions are written.
  const all = mergeConditions(
    mergeConditions(usual, disruption, facts.now),
    // A pod that has ended does not wait for a cell.
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
