import { globMatches, parseQuantity } from "@kip/base";
import type { InstanceTypeOffer } from "@kip/cloud";
import { InstanceTypeError } from "@kip/instance-types";
import type { Pod } from "@kip/k8s-types";
import { podRequests, type ResourceAmounts } from "./pod-requests.ts";

/** What instance types have beside processors, memory and disk: quantities by resource, by a pattern for names of types. */
export type ExtendedResources = Readonly<Record<string, Readonly<Record<string, string>>>>;

/** Extended resources have a domain in their name; those of Kubernetes itself do not count, as with the scheduler. */
export function isExtendedResource(name: string): boolean {
  return name.includes("/") && !/^([^/]+\.)?kubernetes\.io\//.test(name);
}

/** What a type has by all patterns that match its name; the last one counts where several name a resource. */
export function resourcesOfType(configured: ExtendedResources, type: string): ResourceAmounts {
  const matching = Object.entries(configured).filter(([pattern]) => globMatches(pattern, type));
  const all = matching.flatMap(([, resources]) => Object.entries(resources));
  return new Map(all.map(([name, quantity]) => [name, parseQuantity(quantity)]));
}

/**
 * The types that have what a pod requests of extended resources. Resources that no pattern names do not count: GPUs are
 * the types' own, others are the business of those who put them on the node.
 *
 * @throws {InstanceTypeError} `NO_INSTANCE_TYPE_FITS`
 */
export function offersWithResources(
  offers: readonly InstanceTypeOffer[],
  pod: Pod,
  configured: ExtendedResources,
): readonly InstanceTypeOffer[] {
  const known = new Set(Object.values(configured).flatMap((resources) => Object.keys(resources)));
  const wanted = [...podRequests(pod)].filter(([name]) => known.has(name));
  if (wanted.length === 0) return offers;
  const fitting = offers.filter(({ name: type }) => {
    const has = resourcesOfType(configured, type);
    return wanted.every(([name, amount]) => amount <= (has.get(name) ?? 0));
  });
  if (fitting.length > 0) return fitting;
  const words = wanted.map(([name, amount]) => `${amount} ${name}`).join(", ");
  throw new InstanceTypeError(
    "NO_INSTANCE_TYPE_FITS",
    `Cannot find an instance type for ${words}: no type on offer has so many`,
    { remedy: "Lower the pod's requests, or correct cells.extendedResources" },
  );
}

/** The most of each extended resource that a type on offer has: what the node offers, as one machine. */
export function mostResources(
  offers: readonly InstanceTypeOffer[],
  configured: ExtendedResources,
): Readonly<Record<string, string>> {
  const most = new Map<string, number>();
  const add = (name: string, amount: number): void => {
    if (amount > 0) most.set(name, Math.max(amount, most.get(name) ?? 0));
  };
  for (const { name: type, gpus, gpuModel } of offers) {
    add(`${gpuModel?.manufacturer ?? "nvidia"}.com/gpu`, gpus);
    for (const [name, amount] of resourcesOfType(configured, type)) add(name, amount);
  }
  return Object.fromEntries([...most].map(([name, amount]) => [name, String(amount)]));
}
