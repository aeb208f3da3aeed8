import type { DesiredHugePages } from "@kip/agent-api";
import { parseQuantity } from "@kip/base";
import type { Container, Pod } from "@kip/k8s-types";
import { hugePagesPrefix, podHugePages } from "../selection/pod-requests.ts";

/** What the cell reserves for the pod, by size; undefined for none. */
export function desiredHugePages(pod: Pod): readonly DesiredHugePages[] | undefined {
  return asList(podHugePages(pod));
}

/**
 * How much a container may use of each size that its pod has. One without limits of its own may use what the pod as a whole
 * has, as with a kubelet.
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

/** Names of the sizes that a pod has. Kept, because all of its containers are looked at for them, for each container. */
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

/** What the agent reads as a number. */
function wholeBytes(amount: number): number {
  return Math.min(Math.ceil(amount), Number.MAX_SAFE_INTEGER);
}
