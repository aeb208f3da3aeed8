import { defined } from "@kip/base";
import type { ContainerReport } from "@kip/agent-api";
import type {
  Container,
  ContainerStatus,
  EphemeralContainer,
  Pod,
  PodStatus,
} from "@kip/k8s-types";
import type { CellMemory } from "../cell/cell-memory.ts";
import { podAddress } from "../cell/pod-address.ts";
import { containerStatus, waitingStatus } from "./container-status.ts";
import { podConditions } from "./pod-conditions.ts";
import { qosClass } from "./qos-class.ts";

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
  const { report, isPodFinished, waitingFor, status } = memory;
  if (!report && !isPodFinished && status.phase === "Claimed") return undefined;
  const phase = report?.phase ?? (isPodFinished ? "Failed" : "Pending");
  const failure = phase === "Failed" ? waitingFor : undefined;
  return defined({
    phase,
    qosClass: qosClass(pod),
    hostIP: context.nodeIp,
    hostIPs: [{ ip: context.nodeIp }],
    ...(report && addresses(memory, pod)),
    startTime: report?.startTime ?? pod.status?.startTime ?? wireTime(context.now),
    reason: report?.reason ?? failure?.reason,
    message: report?.message ?? failure?.message,
    conditions: podConditions({ pod, report, phase, waitingFor, now: context.now }),
    ...containerStatuses(memory, pod),
  });
}

function addresses(memory: CellMemory, pod: Pod): Pick<PodStatus, "podIP" | "podIPs"> {
  const ip = podAddress(memory, pod.spec?.hostNetwork === true);
  return ip === "" ? {} : { podIP: ip, podIPs: [{ ip }] };
}

function containerStatuses(memory: CellMemory, pod: Pod): Partial<PodStatus> {
  const { report, restartCounts, isPodFinished } = memory;
  // A pod whose cell was lost for good keeps what was last known of its containers.
  if (!report && isPodFinished) return keptStatuses(pod);
  const hasInit = (pod.spec?.initContainers ?? []).length > 0;
  const build = (
    containers: readonly (Container | EphemeralContainer)[],
    reports: readonly ContainerReport[] | undefined,
    waiting: "ContainerCreating" | "PodInitializing",
  ): ContainerStatus[] =>
    containers.map((container) => {
      const own = reports?.find(({ name }) => name === container.name);
      const earlier = restartCounts[container.name] ?? 0;
      return own ? containerStatus(own, earlier) : waitingStatus(container, waiting, earlier);
    });
  const { initContainers = [], containers = [], ephemeralContainers = [] } = pod.spec ?? {};
  return {
    ...(hasInit && {
      initContainerStatuses: build(initContainers, report?.initContainers, "PodInitializing"),
    }),
    containerStatuses: build(
      containers,
      report?.containers,
      hasInit ? "PodInitializing" : "ContainerCreating",
    ),
    ...(ephemeralContainers.length > 0 && {
      ephemeralContainerStatuses: build(
        ephemeralContainers,
        report?.ephemeralContainers,
        "ContainerCreating",
      ),
    }),
  };
}

function keptStatuses(pod: Pod): Partial<PodStatus> {
  const { initContainerStatuses, containerStatuses, ephemeralContainerStatuses } = pod.status ?? {};
  return {
    ...(initContainerStatuses && { initContainerStatuses }),
    ...(containerStatuses && { containerStatuses: containerStatuses.map(ended) }),
    ...(ephemeralContainerStatuses && { ephemeralContainerStatuses }),
  };
}

/** Nothing runs on a cell that is gone: 137 is what a killed process would have left. */
function ended(status: ContainerStatus): ContainerStatus {
  if (status.state?.terminated) return status;
  const { containerID, state } = status;
  const terminated = {
    exitCode: 137,
    reason: "CellLost",
    message: "The machine of this pod is gone",
    ...(state?.running?.startedAt !== undefined && { startedAt: state.running.startedAt }),
    ...(containerID !== undefined && { containerID }),
  };
  return { ...status, ready: false, started: false, state: { terminated } };
}

function wireTime(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+Z$/, "Z");
}
