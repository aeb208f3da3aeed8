import { defined } from "@kip/base";
import type { ContainerReport, PodReport } from "@kip/agent-api";
import { wireTime } from "@kip/k8s-client";
import type { ContainerStatus, Pod, PodCondition, PodStatus } from "@kip/k8s-types";
import {
  goneStatuses,
  mergeConditions,
  podConditions,
  qosClass,
  waitingStatuses,
} from "@kip/virtual-kubelet";
import { wasClaimed, type CellMemory } from "../cell/cell-memory.ts";
import { podAddress } from "../cell/pod-address.ts";
import { disruptionVerdict } from "./disruption.ts";
import { containerStatus } from "./container-status.ts";

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
  const { report, isPodFinished, waitingFor } = memory;
  if (isUntold(memory)) return undefined;
  const phase = report?.phase ?? (isPodFinished ? "Failed" : "Pending");
  const failure = phase === "Failed" ? waitingFor : undefined;
  const containers = containerStatuses(memory, pod, context);
  return defined({
    phase,
    qosClass: qosClass(pod),
    hostIP: context.nodeIp,
    hostIPs: [{ ip: context.nodeIp }],
    ...(report && addresses(memory, pod)),
    startTime: startTime(memory, pod, context),
    reason: report?.reason ?? failure?.reason,
    message: report?.message ?? failure?.message,
    conditions: conditions(memory, pod, { phase, ...containers, now: wireTime(context.now) }),
    ...containers,
  });
}

/** Whether what is known here is not for the API. */
function isUntold({ report, isPodFinished, waitingFor, status, wanted }: CellMemory): boolean {
  if (!report && !isPodFinished) return wasClaimed(status);
  // The end of a pod is told with the report that brought it, and stays when its cell is forgotten.
  if (!report) return waitingFor === undefined;
  // Its Cell was deleted: that its containers end is no end of the pod.
  const hasEnded = report.phase === "Succeeded" || report.phase === "Failed";
  return hasEnded && !isPodFinished && wanted.kind === "run";
}

/** The time that was told first: a replaced cell or a restart of kip does not change it. */
function startTime({ report, startTime: told }: CellMemory, pod: Pod, { now }: PodStatusContext) {
  return told ?? pod.status?.startTime ?? report?.startTime ?? wireTime(now);
}

type ContainerStatuses = Pick<
  PodStatus,
  "initContainerStatuses" | "containerStatuses" | "ephemeralContainerStatuses"
>;

function conditions(
  memory: CellMemory,
  pod: Pod,
  facts: ContainerStatuses & { readonly phase: string; readonly now: string },
): PodCondition[] {
  const { report, waitingFor, conditions: told = [] } = memory;
  // The pod is as old as its last apply; what was told since is newer. Gates are looked up in it.
  const api = pod.status?.conditions ?? [];
  const others = api.filter(({ type }) => !told.some((each) => each.type === type));
  const known = [...told, ...others];
  const seen = { ...pod, status: { ...pod.status, conditions: known } };
  const usual = podConditions(seen, { ...facts, isReadyToStart: report !== undefined });
  const cellReady = report
    ? ({ type: cellReadyCondition, status: "True" } as const)
    : ({
        type: cellReadyCondition,
        status: "False",
        reason: waitingFor?.reason ?? "CellStarting",
        message: waitingFor?.message ?? "The machine of this pod is being started",
      } as const);
  const disruption = disruptionVerdict(memory, known);
  const isOwn = (type: string): boolean =>
    ownTypes.has(type) || disruption.some((verdict) => verdict.type === type);
  // Conditions of others are theirs to write.
  const all = mergeConditions(
    mergeConditions(usual, disruption, facts.now),
    [cellReady],
    facts.now,
  );
  return all.filter(({ type }) => isOwn(type));
}

function addresses(memory: CellMemory, pod: Pod): Pick<PodStatus, "podIP" | "podIPs"> {
  const ip = podAddress(memory, pod.spec?.hostNetwork === true);
  return ip === "" ? {} : { podIP: ip, podIPs: [{ ip }] };
}

function containerStatuses(
  memory: CellMemory,
  pod: Pod,
  { now }: PodStatusContext,
): ContainerStatuses {
  const { report, isPodFinished } = memory;
  // Nothing runs on a cell that is gone.
  if (!report && isPodFinished) return goneStatuses(pod.status ?? {}, wireTime(now));
  const waiting = waitingStatuses(pod);
  if (!report) return waiting;
  return reportedStatuses(report, memory.restartCounts, waiting);
}

function reportedStatuses(
  report: PodReport,
  restarts: Readonly<Record<string, number>>,
  waiting: ContainerStatuses,
): ContainerStatuses {
  const build = (
    reports: readonly ContainerReport[],
    known: readonly ContainerStatus[] = [],
  ): ContainerStatus[] => [
    ...reports.map((each) => containerStatus(each, restarts[each.name] ?? 0)),
    ...known.filter(({ name }) => !reports.some((each) => each.name === name)),
  ];
  return {
    ...(waiting.initContainerStatuses && {
      initContainerStatuses: build(report.initContainers, waiting.initContainerStatuses),
    }),
    containerStatuses: build(report.containers, waiting.containerStatuses),
    ...(report.ephemeralContainers.length > 0 && {
      ephemeralContainerStatuses: build(report.ephemeralContainers),
    }),
  };
}
