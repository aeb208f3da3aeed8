import { createHash } from "node:crypto";
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
    ? { terminated: terminatedState(report.lastTerminated, earlierRestarts) }
    : {};
  return defined({
    name: report.name,
    state: currentState(report, earlierRestarts),
    lastState,
    ready: report.ready,
    started: report.started,
    restartCount: Math.min(report.restartCount + earlierRestarts, maxCount),
    image: report.image,
    imageID: report.imageId ?? "",
    containerID: shownId(report.containerId, earlierRestarts),
    user: userOf(report),
  });
}

function userOf({ user }: ContainerReport): ContainerStatus["user"] {
  if (!user) return undefined;
  const { uid, gid, groups } = user;
  return { linux: { uid, gid, supplementalGroups: groups } };
}

function currentState(report: ContainerReport, earlierRestarts: number): ContainerState {
  if (report.running) return { running: report.running };
  if (report.terminated) return { terminated: terminatedState(report.terminated, earlierRestarts) };
  return { waiting: defined(report.waiting ?? { reason: "ContainerCreating" }) };
}

function terminatedState(
  report: TerminatedReport,
  earlierRestarts: number,
): NonNullable<ContainerState["terminated"]> {
  const { containerId, signal, message, startedAt, exitCode, reason, finishedAt } = report;
  return defined({
    exitCode,
    reason,
    finishedAt,
    signal,
    message,
    startedAt,
    containerID: shownId(containerId, earlierRestarts),
  });
}

/** An agent counts runs from its own first one, so its IDs repeat those of earlier cells. */
function shownId(id: string | undefined, earlierRestarts: number): string | undefined {
  if (id === undefined || earlierRestarts === 0) return id;
  const hash = createHash("sha256").update(`${id}/${earlierRestarts}`).digest("hex");
  return `${id.slice(0, id.lastIndexOf("/") + 1)}${hash.slice(0, 32)}`;
}
