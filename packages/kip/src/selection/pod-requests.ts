import { parseQuantity } from "@kip/base";
import type { Pod } from "@kip/k8s-types";

/** Amounts by resource name: CPUs, bytes, counts. */
export type ResourceAmounts = ReadonlyMap<string, number>;

type Quantities = Readonly<Record<string, string>>;

/**
 * A pod's requests as the scheduler counts them: those of its containers, or pod-level ones where present, plus its overhead.
 * Init containers count with the largest of them, together with the sidecars that were started before it.
 *
 * @see https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers
 * @throws {Error} `QUANTITY_INVALID`
 */
export function podRequests({ spec }: Pod): ResourceAmounts {
  const ofContainers = amountsOfContainers(spec, "requests");
  const ofPod = new Map([...ofContainers, ...amounts(spec.resources?.requests)]);
  return joined(ofPod, amounts(spec.overhead), sum);
}

/** The ephemeral storage that a pod requests, bytes. The disk of its machine has it in addition to room for images. */
export function requestedDiskBytes(pod: Pod): number {
  return Math.ceil(podRequests(pod).get("ephemeral-storage") ?? 0);
}

/** Prefix of huge page resources, which is followed by the page size. */
export const hugePagesPrefix = "hugepages-";

/**
 * The huge pages of a pod, bytes by resource name. The API server ensures that requests equal limits. Sizes with an amount of 0
 * are left out, because they pass admission on every node, and each container in the document would list all of them.
 */
export function podHugePages(pod: Pod): ResourceAmounts {
  const isHugePages = ([name, amount]: readonly [string, number]): boolean =>
    name.startsWith(hugePagesPrefix) && amount > 0;
  return new Map([...podRequests(pod)].filter(isHugePages));
}

/** All huge pages of a pod together, bytes. Its machine needs this memory in addition to the pod's memory. */
export function hugePageBytes(pod: Pod): number {
  return [...podHugePages(pod).values()].reduce(sum, 0);
}

/**
 * The total requests or limits of a pod's containers, without resources that a container does not have. The cost of each
 * container only depends on the resources that it names, because others in the pod may name thousands.
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
