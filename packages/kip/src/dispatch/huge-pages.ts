import type { DesiredHugePages } from "@kip/agent-api";
import { parseQuantity } from "@kip/base";
import type { Container, Pod } from "@kip/k8s-types";
import { hugePagesPrefix, podHugePages } from "../selection/pod-requests.ts";

/** Huge pages that the cell reserves for the pod, by size. Undefined if there are none. */
export function desiredHugePages(pod: Pod): readonly DesiredHugePages[] | undefined {
  return asList(podHugePages(pod));
}

/**
 * A container's limit for each page size of its pod. As in a kubelet, a container without its own limits may use the whole
 * pod's.
 */
export function containerHugePages(
  pod: Pod,
  { resources }: Pick<Container, "resources">,
): readonly DesiredHugePages[] | undefined {
  const ofPod = pod.spec.resources?.limits ?? {};
  const own = resources?.limits ?? {};
  const has = (limits: Readonly<Record<string, string>>): boolean =>
    Object.keys(limits).some((name) => name.startsWith(hugePagesPrefix));
  const limits = has(own) ? own : ofPod;
  const names = namesOf(pod);
  return asList(new Map(names.map((name) => [name, parseQuantity(limits[name] ?? "0")])));
}

/** Names of a pod's page sizes. Cached, because all containers have to be checked for them, for each container. */
const namesByPod = new WeakMap<Pod, readonly string[]>();

function namesOf(pod: Pod): readonly string[] {
  const known = namesByPod.get(pod);
  if (known) return known;
  const names = [...podHugePages(pod).keys()];
  namesByPod.set(pod, names);
  return names;
}

function asList(amounts: ReadonlyMap<string, number>): readonly DesiredHugePages[] | undefined {
  if (amounts.size === 0) return undefined;
  return [...amounts].map(([name, amount]) => ({
    pageBytes: wholeBytes(parseQuantity(name.slice(hugePagesPrefix.length))),
    bytes: wholeBytes(amount),
  }));
}

/** A number that the agent accepts. */
function wholeBytes(amount: number): number {
  return Math.min(Math.ceil(amount), Number.MAX_SAFE_INTEGER);
}
