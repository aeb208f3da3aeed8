import type { DesiredContainer, DesiredPod, ResourceAmounts } from "@kip/agent-api";
import { defined, formatBytes, formatMilliCpu, ownValue } from "@kip/base";

/** Resources of containers by name. */
export type AmountsByName = Readonly<Record<string, ResourceAmounts>>;

type Amount = keyof ResourceAmounts;

const names = [
  "cpuMilliLimit",
  "cpuMilliRequest",
  "memoryBytesLimit",
  "memoryBytesRequest",
] as const satisfies readonly Amount[];

/** The requests and limits of a container, without its other fields. */
export function amountsOf(container: ResourceAmounts): ResourceAmounts {
  return defined(Object.fromEntries(names.map((name) => [name, container[name]])));
}

/** Treats undefined and 0 as equal. */
export function isSame(a: ResourceAmounts, b: ResourceAmounts): boolean {
  return names.every((name) => (a[name] ?? 0) === (b[name] ?? 0));
}

/** The containers that count for a pod's totals. Ephemeral ones do not. */
export function countedContainers(pod: DesiredPod): readonly DesiredContainer[] {
  return [...pod.initContainers, ...pod.containers];
}

/**
 * The maximum use of a resource by containers at the same time: init containers run one after the other, and sidecars run
 * together with all containers that come after them.
 *
 * @see https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers
 */
export function total(
  pod: Pick<DesiredPod, "initContainers" | "containers">,
  of: (container: DesiredContainer) => number,
): number {
  let sidecars = 0;
  let starting = 0;
  for (const container of pod.initContainers) {
    const beside = sidecars + of(container);
    starting = Math.max(starting, beside);
    if (container.restartPolicy === "Always") sidecars = beside;
  }
  const running = pod.containers.reduce((sum, one) => sum + of(one), sidecars);
  return Math.max(starting, running);
}

/** Whether each container has this limit. For an init container, that of a sidecar before it is enough. */
function isDeclared(pod: DesiredPod, of: (container: DesiredContainer) => number): boolean {
  let sidecars = 0;
  for (const container of pod.initContainers) {
    const beside = sidecars + of(container);
    if (beside === 0) return false;
    if (container.restartPolicy === "Always") sidecars = beside;
  }
  return pod.containers.every((container) => of(container) > 0);
}

/** The pod's requests as the scheduler counts them, including its overhead. */
export function podRequest(
  pod: DesiredPod,
  containers: AmountsByName,
): { readonly cpuMilli: number; readonly memoryBytes: number } {
  const sum = (name: Amount): number =>
    pod.resources?.[name] ?? total(pod, (one) => ownValue(containers, one.name)?.[name] ?? 0);
  const { cpuMilli = 0, memoryBytes = 0 } = pod.overhead ?? {};
  return {
    cpuMilli: sum("cpuMilliRequest") + cpuMilli,
    memoryBytes: sum("memoryBytesRequest") + memoryBytes,
  };
}

/**
 * Limits of the pod's cgroup, by the kubelet's rules: pod-level limits, otherwise the sum of the containers' limits if all of
 * them have one. The request determines its weight.
 */
export function podLimits(pod: DesiredPod, containers: AmountsByName): ResourceAmounts {
  if (pod.qosClass === "BestEffort") return { cpuMilliRequest: 0 };
  const limit = (name: Amount, overhead: number | undefined): number | undefined => {
    const of = (one: DesiredContainer): number => ownValue(containers, one.name)?.[name] ?? 0;
    const own = pod.resources?.[name] ?? 0;
    const isLimited = pod.qosClass === "Guaranteed" || own > 0 || isDeclared(pod, of);
    const sum = own > 0 ? own : total(pod, of);
    return isLimited && sum > 0 ? sum + (overhead ?? 0) : undefined;
  };
  return defined({
    cpuMilliRequest: podRequest(pod, containers).cpuMilli,
    cpuMilliLimit: limit("cpuMilliLimit", pod.overhead?.cpuMilli),
    memoryBytesLimit: limit("memoryBytesLimit", pod.overhead?.memoryBytes),
  });
}

/** The kernel's limits for a container. Without its own limit, it may use the whole pod's. */
export function containerLimits(
  pod: Pick<DesiredPod, "resources">,
  { cpuMilliLimit, cpuMilliRequest, memoryBytesLimit }: ResourceAmounts,
): ResourceAmounts {
  const cpu = positive(cpuMilliLimit) ?? pod.resources?.cpuMilliLimit;
  return {
    cpuMilliLimit: cpu,
    // As in a kubelet, a container without a request gets what the others leave.
    cpuMilliRequest: cpuMilliRequest ?? cpu ?? 0,
    memoryBytesLimit: positive(memoryBytesLimit) ?? pod.resources?.memoryBytesLimit,
  };
}

function positive(amount: number | undefined): number | undefined {
  return amount === 0 ? undefined : amount;
}

/** Amounts in the form of API objects, for events. */
export function asRequirements(amounts: ResourceAmounts): object {
  const list = (cpu: number | undefined, memory: number | undefined): object | undefined =>
    cpu === undefined && memory === undefined
      ? undefined
      : defined({
          cpu: cpu === undefined ? undefined : formatMilliCpu(cpu),
          memory: memory === undefined ? undefined : formatBytes(memory),
        });
  return defined({
    limits: list(amounts.cpuMilliLimit, amounts.memoryBytesLimit),
    requests: list(amounts.cpuMilliRequest, amounts.memoryBytesRequest),
  });
}
