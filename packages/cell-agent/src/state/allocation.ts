import type { DesiredPod, ResizeReport, ResourceAmounts } from "@kip/agent-api";
import { defined, ownValue } from "@kip/base";
import {
  amountsOf,
  asRequirements,
  countedContainers,
  isSame,
  podRequest,
  type AmountsByName,
} from "./amounts.ts";
import { isRunning, type ContainerRecord } from "./container-record.ts";
import type { NewEvent } from "./pod-events.ts";
import type { PodState } from "./pod-state.ts";

/** The pod's resources on the cell. Plain JSON, because it outlives the agent. */
export interface Allocation {
  /** The resources that each container should have: the pod's current requests, or the last ones that were feasible. */
  readonly containers: AmountsByName;
  /** The resources of the pod's cgroup. Absent before the first container. */
  readonly podLimits?: ResourceAmounts | undefined;
  /** A resize for which the cell is too small. */
  readonly pending?: ResizeReport | undefined;
  /** A resize that has begun. */
  readonly inProgress?: ResizeReport | undefined;
  /** When to retry a failed resize, milliseconds since the Unix epoch. */
  readonly retryAtMs?: number | undefined;
}

/** Before the first pod. */
export const noAllocation: Allocation = { containers: {} };

/** Delay before retrying a failed resize, milliseconds: the kubelet's pause after a pod could not be synced. */
const retryMs = 10_000;

/**
 * Allocates the resources that a pod, or a newer version of it, requests. A new pod always gets them, and a later version only
 * if the cell is large enough. A cell has one pod, so a resize never waits for others (`Deferred`).
 *
 * @param before undefined for a new pod
 */
export function allocate(pod: DesiredPod, before: Allocation | undefined): Allocation {
  const wanted = wantedBy(pod);
  if (!before) return firstAllocation(pod, wanted);
  const isDone = Object.entries(wanted).every(([name, amounts]) =>
    isSame(amounts, ownValue(before.containers, name) ?? {}),
  );
  if (isDone) return before.pending ? { ...before, pending: undefined } : before;
  const message = infeasible(pod, wanted);
  const { podGeneration } = pod;
  if (message !== undefined)
    return { ...before, pending: defined({ reason: "Infeasible", message, podGeneration }) };
  return {
    containers: wanted,
    podLimits: before.podLimits,
    inProgress: defined({ podGeneration }),
  };
}

/** A pod that has lost its cell may have requested more from that cell than it was granted, and now requests it here. */
function firstAllocation(pod: DesiredPod, wanted: AmountsByName): Allocation {
  const granted = countedContainers(pod).flatMap((one) =>
    one.granted ? [[one.name, amountsOf(one.granted)] as const] : [],
  );
  if (granted.length === 0 || infeasible(pod, wanted) === undefined) return { containers: wanted };
  return allocate(pod, { containers: { ...wanted, ...Object.fromEntries(granted) } });
}

/** Why the cell does not have enough, in the kubelet's words. */
function infeasible(pod: DesiredPod, wanted: AmountsByName): string | undefined {
  if (!pod.machine) return undefined;
  const asked = podRequest(pod, wanted);
  const words = (name: string, amount: number, capacity: number): string =>
    `Node didn't have enough capacity: ${name}, requested: ${amount}, capacity: ${capacity}`;
  if (asked.memoryBytes > pod.machine.memoryBytes)
    return words("memory", asked.memoryBytes, pod.machine.memoryBytes);
  if (asked.cpuMilli > pod.machine.cpuMilli)
    return words("cpu", asked.cpuMilli, pod.machine.cpuMilli);
  return undefined;
}

/** The resources of a container's run. Those from an agent without resizes are not known, and assumed to be right. */
export function actuated(record: ContainerRecord, { containers }: Allocation): ResourceAmounts {
  return record.saved.run?.resources ?? ownValue(containers, record.desired.name) ?? {};
}

/** The change from a container's present resources to those that it should have. Undefined if it has them. */
export function resizeOf(
  record: ContainerRecord,
  allocation: Allocation,
): "inPlace" | "restart" | undefined {
  if (!isRunning(record) || !isResizable(record)) return undefined;
  const has = actuated(record, allocation);
  const wanted = ownValue(allocation.containers, record.desired.name) ?? {};
  if (isSame(has, wanted)) return undefined;
  const { resizeRestarts = [] } = record.desired;
  const isCpuChanged = !isSame(cpuOf(has), cpuOf(wanted));
  const isMemoryChanged = !isSame(memoryOf(has), memoryOf(wanted));
  const restarts =
    (isCpuChanged && resizeRestarts.includes("cpu")) ||
    (isMemoryChanged && resizeRestarts.includes("memory"));
  return restarts ? "restart" : "inPlace";
}

function isResizable({ kind }: ContainerRecord): boolean {
  return kind === "main" || kind === "sidecar";
}

function cpuOf({ cpuMilliLimit, cpuMilliRequest }: ResourceAmounts): ResourceAmounts {
  return { cpuMilliLimit, cpuMilliRequest };
}

function memoryOf({ memoryBytesLimit, memoryBytesRequest }: ResourceAmounts): ResourceAmounts {
  return { memoryBytesLimit, memoryBytesRequest };
}

/**
 * The current resize after a temporary failure, with the event that reports it. Undefined if the resize has failed before: the
 * reason may contain the current usage, which differs each time, and the API accepts few events for a pod.
 */
export function failed(
  { allocation, desired: pod }: Pick<PodState, "allocation" | "desired">,
  error: string,
  nowMs: number,
): { readonly allocation: Allocation; readonly event: NewEvent | undefined } {
  const { inProgress: before, containers } = allocation;
  const inProgress = { ...before, reason: "Error", message: error };
  const next = { ...allocation, inProgress, retryAtMs: nowMs + retryMs };
  if (!pod || before?.reason === "Error") return { allocation: next, event: undefined };
  const generation = before?.podGeneration;
  const message = resizeMessage("Pod resize error", pod, containers, { generation, error });
  return { allocation: next, event: { type: "Warning", reason: "ResizeError", message } };
}

/**
 * The changes at the end of a resize: the allocation, and the event that reports it. Undefined while it is in progress, or if
 * there is none. Containers that are not running do not count, because they get their resources at their next start.
 */
export function settled(
  allocation: Allocation,
  pod: DesiredPod,
  records: Iterable<ContainerRecord>,
): { readonly allocation: Allocation; readonly event: NewEvent } | undefined {
  if (!allocation.inProgress) return undefined;
  for (const record of records) {
    const { run } = record.saved;
    const isBetweenRuns = isResizable(record) && run?.exit !== undefined && run.restarts === true;
    if (isBetweenRuns || resizeOf(record, allocation) !== undefined) return undefined;
  }
  const message = resizeMessage("Pod resize completed", pod, allocation.containers);
  return {
    allocation: { ...allocation, inProgress: undefined, retryAtMs: undefined },
    event: { type: "Normal", reason: "ResizeCompleted", message },
  };
}

/**
 * The event for a resize that begins, or for which the cell is too small. Kubelets have it from 1.36 on. Undefined if there is
 * none, or if it was reported already.
 */
export function begun(
  pod: DesiredPod,
  before: Allocation,
  { containers, pending, inProgress }: Allocation,
): NewEvent | undefined {
  if (pending && pending.message !== before.pending?.message) {
    const { podGeneration: generation, message: error } = pending;
    const message = resizeMessage("Pod resize Infeasible", pod, wantedBy(pod), {
      generation,
      error,
    });
    return { type: "Warning", reason: "ResizeInfeasible", message };
  }
  if (!inProgress || containers === before.containers) return undefined;
  const generation = inProgress.podGeneration;
  const message = resizeMessage("Pod resize started", pod, containers, { generation });
  return { type: "Normal", reason: "ResizeStarted", message };
}

function resizeMessage(
  begin: string,
  pod: DesiredPod,
  amounts: AmountsByName,
  more: { readonly generation?: number | undefined; readonly error?: string | undefined } = {},
): string {
  const summary = (containers: DesiredPod["containers"]): object[] | undefined =>
    containers.length === 0
      ? undefined
      : containers.map(({ name }) => ({
          name,
          resources: asRequirements(ownValue(amounts, name) ?? {}),
        }));
  const parts = defined({
    initContainers: summary(pod.initContainers),
    containers: summary(pod.containers),
    ...more,
  });
  return `${begin}: ${JSON.stringify(parts)}`;
}

function wantedBy(pod: DesiredPod): AmountsByName {
  return Object.fromEntries(
    countedContainers(pod).map((one) => [one.name, amountsOf(one)] as const),
  );
}
