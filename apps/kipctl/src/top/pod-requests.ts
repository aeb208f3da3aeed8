import type { Pod } from "@kip/k8s-types";

/** Total request of a pod's containers for a resource, without init containers. 0 if they request none. */
export function totalRequest(
  pod: Pod,
  resource: "cpu" | "memory",
  read: (quantity: string) => number,
): number {
  const requests = pod.spec.containers.map(({ resources }) => resources?.requests?.[resource]);
  return requests.reduce((sum, quantity) => sum + (quantity === undefined ? 0 : read(quantity)), 0);
}

/** The used share of a request, as in `37%`. Undefined if either value is unknown. */
export function shareText(used: number, requested: number): string | undefined {
  return Number.isNaN(used) || requested === 0
    ? undefined
    : `${Math.round((used / requested) * 100)}%`;
}
