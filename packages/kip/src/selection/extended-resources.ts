import { globMatches, parseQuantity } from "@kip/base";
import type { InstanceTypeOffer } from "@kip/cloud";
import { InstanceTypeError } from "@kip/instance-types";
import type { Pod } from "@kip/k8s-types";
import { podRequests, type ResourceAmounts } from "./pod-requests.ts";

/** Extended resources of instance types: quantities by resource, by a pattern for type names. */
export type ExtendedResources = Readonly<Record<string, Readonly<Record<string, string>>>>;

/** Whether it is an extended resource: its name has a domain other than Kubernetes' own, as for the scheduler. */
export function isExtendedResource(name: string): boolean {
  return name.includes("/") && !/^([^/]+\.)?kubernetes\.io\//.test(name);
}

/** A type's resources from all patterns that match its name. If several name the same resource, the last one counts. */
export function resourcesOfType(configured: ExtendedResources, type: string): ResourceAmounts {
  const matching = Object.entries(configured).filter(([pattern]) => globMatches(pattern, type));
  const all = matching.flatMap(([, resources]) => Object.entries(resources));
  return new Map(all.map(([name, quantity]) => [name, parseQuantity(quantity)]));
}

/**
 * The types that have the extended resources that a pod requests. Resources that no pattern names are ignored: GPUs belong to
 * the types, and others have to be provided by whatever added them to the node.
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

/** For each extended resource, the maximum that a type on offer has, which the node offers as if it were one machine. */
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
