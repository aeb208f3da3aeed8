import type { DesiredContainer, DesiredPod, ResourceAmounts } from "@kip/agent-api";
import { defined, formatBytes, formatMilliCpu, ownValue } from "@kip/base";

/** What each container has or is to have, by name. */
export type AmountsByName = Readonly<Record<string, ResourceAmounts>>;

type Amount = keyof ResourceAmounts;

const names = [
  "cpuMilliLimit",
  "cpuMilliRequest",
  "memoryBytesLimit",
  "memoryBytesRequest",
] as const satisfies readonly Amount[];

/** What a container asks for and may use, without the rest of it. */
export function amountsOf(container: ResourceAmounts): ResourceAmounts {
  return defined(Object.fromEntries(names.map((name) => [name, container[name]])));
}

/** Nothing and 0 are the same. */
export function isSame(a: ResourceAmounts, b: ResourceAmounts): boolean {
  return names.every((name) => (a[name] ?? 0) === (b[name] ?? 0));
}

/** The containers whose amounts a pod's own are made of, ephemeral ones are not. */
export function countedContainers(pod: DesiredPod): readonly DesiredContainer[] {
  return [...pod.initContainers, ...pod.containers];
}

/**
 * What containers use of a resource at most at the same time: init containers run one after the other, sidecars beside all that come
 * after them.
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

/** Whether each container has this limit; an init container also has it with that of a sidecar before it. */
function isDeclared(pod: DesiredPod, of: (container: DesiredContainer) => number): boolean {
  let sidecars = 0;
  for (const container of pod.initContainers) {
    const beside = sidecars + of(container);
    if (beside === 0) return false;
    if (container.restartPolicy === "Always") sidecars = beside;
  }
  return pod.containers.every((container) => of(container) > 0);
}

/** What the scheduler counts for the pod, its overhead included. */
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
 * Limits of the cgroup of the whole pod, by the kubelet's rules: those of the pod itself; else the sum of its containers', if each of them has
 * one. The request is its weight.
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

/** What the kernel is given for a container: it may use what the pod may, where it has no limit of its own. */
export function containerLimits(
  pod: Pick<DesiredPod, "resources">,
  { cpuMilliLimit, cpuMilliRequest, memoryBytesLimit }: ResourceAmounts,
): ResourceAmounts {
  const cpu = positive(cpuMilliLimit) ?? pod.resources?.cpuMilliLimit;
  return {
    cpuMilliLimit: cpu,
    // One that asks for nothing gets what the others leave, as with a kubelet.
    cpuMilliRequest: cpuMilliRequest ?? cpu ?? 0,
    memoryBytesLimit: positive(memoryBytesLimit) ?? pod.resources?.memoryBytesLimit,
  };
}

function positive(amount: number | undefined): number | undefined {
  return amount === 0 ? undefined : amount;
}

/** Amounts as the API's objects have them; for events. */
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
