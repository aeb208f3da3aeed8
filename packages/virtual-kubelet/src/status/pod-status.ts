import { defined } from "@kip/base";
import { wireTime } from "@kip/k8s-client";
import type {
  Container,
  ContainerState,
  ContainerStatus,
  EphemeralContainer,
  Pod,
  PodStatus,
} from "@kip/k8s-types";
import { containerStatus, isSidecar } from "./container-statuses.ts";
import { podConditions } from "./pod-conditions.ts";
import { qosClass } from "./qos-class.ts";

/** A container that was started. */
export interface ContainerRun {
  /** Milliseconds since the epoch. */
  readonly startedAtMs: number;
  /** Absent while it is running. */
  readonly ended?:
    | {
        readonly exitCode: number;
        /** Milliseconds since the epoch. */
        readonly finishedAtMs: number;
        /** @default "Completed" or "Error", depending on the exit code */
        readonly reason?: string | undefined;
      }
    | undefined;
  /** Whether it is ready. @default whether it is running */
  readonly isReady?: boolean | undefined;
  /** @default 0 */
  readonly restartCount?: number | undefined;
  readonly containerId?: string | undefined;
}

/** Inputs for {@link podStatus}, in addition to the pod. */
export interface PodFacts {
  /** Runs by container name, including init and ephemeral containers. Containers without a run are waiting. */
  readonly runs: ReadonlyMap<string, ContainerRun>;
  readonly podIp?: string | undefined;
  readonly hostIp?: string | undefined;
  /** Milliseconds since the epoch. */
  readonly nowMs: number;
}

/**
 * The status of a pod, computed from its containers as in a kubelet: phase, conditions, statuses, addresses. A pod has ended
 * when all its containers have. With the restart policy Never, it has failed when an init container has. Omit `ended` for a
 * container that will be restarted.
 *
 * @see https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/
 * @example
 * ```ts
 * import { podStatus, type ContainerRun, type Pod } from "@kip/virtual-kubelet";
 *
 * const pod: Pod = {
 *   metadata: { name: "web", namespace: "default", uid: "1", resourceVersion: "1" },
 *   spec: { containers: [{ name: "main" }, { name: "side" }] },
 * };
 * const runs = new Map<string, ContainerRun>([["main", { startedAtMs: Date.now() }]]);
 * assert.equal(podStatus(pod, { runs, nowMs: Date.now() }).phase, "Pending"); // "side" still waits
 * runs.set("side", { startedAtMs: Date.now() });
 * assert.equal(podStatus(pod, { runs, nowMs: Date.now() }).phase, "Running");
 * ```
 */
export function podStatus(pod: Pod, { runs, podIp, hostIp, nowMs }: PodFacts): PodStatus {
  const { initContainers = [], containers, ephemeralContainers = [] } = pod.spec;
  const statuses = (list: readonly (Container | EphemeralContainer)[]): ContainerStatus[] =>
    list.map((container) => statusOf(container, runs.get(container.name)));
  const phase = phaseOf(pod, runs);
  const startTime = pod.status?.startTime ?? wireTime(nowMs);
  const initContainerStatuses = statuses(initContainers);
  const containerStatuses = statuses(containers);
  const facts = { phase, initContainerStatuses, containerStatuses, now: wireTime(nowMs) };
  return defined({
    phase,
    startTime,
    qosClass: qosClass(pod),
    containerStatuses,
    initContainerStatuses: initContainers.length > 0 ? initContainerStatuses : undefined,
    ephemeralContainerStatuses:
      ephemeralContainers.length > 0 ? statuses(ephemeralContainers) : undefined,
    hostIP: hostIp,
    hostIPs: hostIp === undefined ? undefined : [{ ip: hostIp }],
    podIP: podIp,
    podIPs: podIp === undefined ? undefined : [{ ip: podIp }],
    conditions: podConditions(pod, facts),
  });
}

function phaseOf({ spec }: Pod, runs: PodFacts["runs"]): string {
  const { initContainers = [], containers, restartPolicy } = spec;
  const exitCodeOf = ({ name }: Container): number | undefined => runs.get(name)?.ended?.exitCode;
  const hasFailed = initContainers.some(
    (container) => !isSidecar(container) && (exitCodeOf(container) ?? 0) !== 0,
  );
  if (restartPolicy === "Never" && hasFailed) return "Failed";
  if (!containers.every(({ name }) => runs.has(name))) return "Pending";
  const ends = containers.map(exitCodeOf);
  if (ends.includes(undefined)) return "Running";
  return ends.every((exitCode) => exitCode === 0) ? "Succeeded" : "Failed";
}

function statusOf(
  container: Container | EphemeralContainer,
  run: ContainerRun | undefined,
): ContainerStatus {
  if (run === undefined)
    return containerStatus(container, { waiting: { reason: "ContainerCreating" } });
  const { startedAtMs, ended, restartCount = 0, isReady = true, containerId } = run;
  const startedAt = wireTime(startedAtMs);
  const state: ContainerState = ended
    ? {
        terminated: {
          startedAt,
          exitCode: ended.exitCode,
          finishedAt: wireTime(ended.finishedAtMs),
          reason: ended.reason ?? (ended.exitCode === 0 ? "Completed" : "Error"),
        },
      }
    : { running: { startedAt } };
  const known = defined({ ready: !ended && isReady, restartCount, containerID: containerId });
  return containerStatus(container, state, known);
}
