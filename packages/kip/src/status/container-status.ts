import { defined } from "@kip/base";
import type { ContainerReport, TerminatedReport } from "@kip/agent-api";
import type { ContainerState, ContainerStatus, PodStatus } from "@kip/k8s-types";

/** The three lists of container statuses of a pod. */
export type ContainerLists = Pick<
  PodStatus,
  "initContainerStatuses" | "containerStatuses" | "ephemeralContainerStatuses"
>;

/** The largest int32, which the API uses for counts. */
const maxCount = 2 ** 31 - 1;

/** Converts an agent's container report to the API's status. */
export function containerStatus(report: ContainerReport, earlierRestarts: number): ContainerStatus {
  const lastState = report.lastTerminated
    ? { terminated: terminatedState(report.lastTerminated) }
    : {};
  return defined({
    name: report.name,
    state: currentState(report),
    lastState,
    ready: report.ready,
    started: report.started,
    restartCount: Math.min(report.restartCount + earlierRestarts, maxCount),
    image: report.image,
    imageID: report.imageId ?? "",
    containerID: report.containerId,
    user: userOf(report),
  });
}

function userOf({ user }: ContainerReport): ContainerStatus["user"] {
  if (!user) return undefined;
  const { uid, gid, groups } = user;
  return { linux: { uid, gid, supplementalGroups: groups } };
}

function currentState(report: ContainerReport): ContainerState {
  if (report.running) return { running: report.running };
  if (report.terminated) return { terminated: terminatedState(report.terminated) };
  return { waiting: defined(report.waiting ?? { reason: "ContainerCreating" }) };
}

function terminatedState(report: TerminatedReport): NonNullable<ContainerState["terminated"]> {
  const { containerId, signal, message, startedAt, exitCode, reason, finishedAt } = report;
  return defined({
    exitCode,
    reason,
    finishedAt,
    signal,
    message,
    startedAt,
    containerID: containerId,
  });
}
