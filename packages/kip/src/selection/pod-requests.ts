import { parseQuantity } from "@kip/base";
import type { Pod } from "@kip/k8s-types";

/** Amounts by the name of the resource: processors, bytes, pieces. */
export type ResourceAmounts = ReadonlyMap<string, number>;

type Quantities = Readonly<Record<string, string>>;

/**
 * What the scheduler counts for a pod: the requests of its containers, or of the pod as a whole where it has some, and
 * its overhead. Init containers count with the largest of them, beside the sidecars that were started before.
 *
 * @see https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers
 * @throws {Error} `QUANTITY_INVALID`
 */
export function podRequests({ spec }: Pod): ResourceAmounts {
  const ofContainers = amountsOfContainers(spec, "requests");
  const ofPod = new Map([...ofContainers, ...amounts(spec.resources?.requests)]);
  return joined(ofPod, amounts(spec.overhead), sum);
}

/** Names of resources that are huge pages begin so; their size follows. */
export const hugePagesPrefix = "hugepages-";

/**
 * The huge pages of a pod, bytes by the name of the resource. Requests and limits are the same, by the API server. None of a size does
 * not count: such sizes pass admission at every node, and each container of the document would have all of them.
 */
export function podHugePages(pod: Pod): ResourceAmounts {
  const isHugePages = ([name, amount]: readonly [string, number]): boolean =>
    name.startsWith(hugePagesPrefix) && amount > 0;
  return new Map([...podRequests(pod)].filter(isHugePages));
}

/** All huge pages of a pod together, bytes: memory that its machine has besides what the pod asks for as memory. */
export function hugePageBytes(pod: Pod): number {
  return [...podHugePages(pod).values()].reduce(sum, 0);
}

/**
 * The requests or limits of a pod's containers together, without those that a container does not have. Each container costs what
 * it names itself: others of the pod may name resources in their thousands.
 */
export function amountsOfContainers(
  spec: Pod["spec"],
  kind: "requests" | "limits",
): ResourceAmounts {
  const sidecars = new Map<string, number>();
  const starting = new Map<string, number>();
  for (const { resources, restartPolicy } of spec.initContainers ?? []) {
    for (const [name, amount] of amounts(resources?.[kind])) {
      const beside = (sidecars.get(name) ?? 0) + amount;
      starting.set(name, Math.max(starting.get(name) ?? 0, beside));
      if (restartPolicy === "Always") sidecars.set(name, beside);
    }
  }
  const running = new Map(sidecars);
  for (const { resources } of spec.containers)
    for (const [name, amount] of amounts(resources?.[kind]))
      running.set(name, (running.get(name) ?? 0) + amount);
  return joined(starting, running, Math.max);
}

function amounts(quantities: Quantities = {}): ResourceAmounts {
  return new Map(Object.entries(quantities).map(([name, text]) => [name, parseQuantity(text)]));
}

function joined(
  a: ResourceAmounts,
  b: ResourceAmounts,
  by: (x: number, y: number) => number,
): ResourceAmounts {
  const result = new Map(a);
  for (const [name, amount] of b) result.set(name, by(a.get(name) ?? 0, amount));
  return result;
}

function sum(x: number, y: number): number {
  return x + y;
}
