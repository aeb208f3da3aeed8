import type { ContainerStatus, Pod, PodCondition } from "@kip/k8s-types";
import { mergeConditions, type ConditionVerdict } from "./conditions.ts";
import { isSidecar } from "./container-statuses.ts";

/** Inputs for {@link podConditions}, in addition to the pod. */
export interface PodConditionFacts {
  readonly phase: string;
  readonly initContainerStatuses?: readonly ContainerStatus[] | undefined;
  readonly containerStatuses?: readonly ContainerStatus[] | undefined;
  /** Whether the pod has its sandbox and network. A finished pod does not. @default the phase is not Pending */
  readonly isReadyToStart?: boolean | undefined;
  /** As `metav1.Time`. */
  readonly now: string;
}

/**
 * The conditions of a pod, computed from its containers as in the kubelet: PodScheduled, PodReadyToStartContainers,
 * Initialized, ContainersReady, Ready (with readiness gates). Omits other writers' conditions, so those stay unchanged.
 */
export function podConditions(pod: Pod, facts: PodConditionFacts): PodCondition[] {
  const known = pod.status?.conditions ?? [];
  const containers = containersReady(pod, facts);
  // A finished pod has lost its sandbox and network.
  const hasEnded = facts.phase === "Succeeded" || facts.phase === "Failed";
  const isReadyToStart = !hasEnded && (facts.isReadyToStart ?? facts.phase !== "Pending");
  const verdicts: ConditionVerdict[] = [
    { type: "PodReadyToStartContainers", status: isReadyToStart ? "True" : "False" },
    initialized(pod, facts),
    ready(pod, containers, known),
    containers,
    { type: "PodScheduled", status: "True" },
  ];
  // Omits other writers' conditions, because writing them again would undo newer changes.
  return mergeConditions(known, verdicts, facts.now).slice(0, verdicts.length);
}

function initialized(pod: Pod, facts: PodConditionFacts): ConditionVerdict {
  const type = "Initialized";
  if (facts.phase === "Succeeded") return { type, status: "True", reason: "PodCompleted" };
  const statuses = byName(facts.initContainerStatuses ?? []);
  const unfinished = (pod.spec.initContainers ?? []).filter((container) => {
    const status = statuses.get(container.name);
    return isSidecar(container)
      ? status?.started !== true
      : status?.state?.terminated?.exitCode !== 0;
  });
  // Once a regular container has started, a restarting sidecar does not revert this.
  if (unfinished.length === 0 || facts.containerStatuses?.some(hasStarted) === true)
    return { type, status: "True" };
  const names = unfinished.map(({ name }) => name).join(" ");
  return {
    type,
    status: "False",
    reason: "ContainersNotInitialized",
    message: `containers with incomplete status: [${names}]`,
  };
}

/** Indexed by name, because a pod may have thousands of containers. */
function byName(statuses: readonly ContainerStatus[]): ReadonlyMap<string, ContainerStatus> {
  return new Map(statuses.map((status) => [status.name, status]));
}

function hasStarted({ state }: ContainerStatus): boolean {
  return state?.running !== undefined || state?.terminated !== undefined;
}

function containersReady(pod: Pod, facts: PodConditionFacts): ConditionVerdict {
  const type = "ContainersReady";
  if (facts.phase === "Succeeded") return { type, status: "False", reason: "PodCompleted" };
  if (facts.phase === "Failed") return { type, status: "False", reason: "PodFailed" };
  const { initContainers = [], containers } = pod.spec;
  const { initContainerStatuses = [], containerStatuses = [] } = facts;
  const statuses = byName([...initContainerStatuses, ...containerStatuses]);
  const unready = [...initContainers.filter(isSidecar), ...containers].filter(
    ({ name }) => statuses.get(name)?.ready !== true,
  );
  if (unready.length === 0) return { type, status: "True" };
  const names = unready.map(({ name }) => name).join(" ");
  return {
    type,
    status: "False",
    reason: "ContainersNotReady",
    message: `containers with unready status: [${names}]`,
  };
}

function ready(
  pod: Pod,
  containers: ConditionVerdict,
  known: readonly PodCondition[],
): ConditionVerdict {
  if (containers.status !== "True") return { ...containers, type: "Ready" };
  const conditions = new Map(known.map((condition) => [condition.type, condition]));
  const problems = (pod.spec.readinessGates ?? []).flatMap(({ conditionType }) => {
    const condition = conditions.get(conditionType);
    if (condition?.status === "True") return [];
    const verb = condition ? `is not "True"` : "does not exist";
    const what = condition
      ? "the status of pod readiness gate"
      : "corresponding condition of pod readiness gate";
    return [
      `${what} "${conditionType}" ${condition ? `${verb}, but ${condition.status}` : `${verb}.`}`,
    ];
  });
  if (problems.length === 0) return { type: "Ready", status: "True" };
  return {
    type: "Ready",
    status: "False",
    reason: "ReadinessGatesNotReady",
    message: problems.join(", "),
  };
}
