import type { Pod } from "@kip/k8s-types";

/** What the containers of a pod request of a resource together, besides init containers; 0 if they request none. */
export function totalRequest(
  pod: Pod,
  resource: "cpu" | "memory",
  read: (quantity: string) => number,
): number {
  const requests = pod.spec.containers.map(({ resources }) => resources?.requests?.[resource]);
  return requests.reduce((sum, quantity) => sum + (quantity === undefined ? 0 : read(quantity)), 0);
}

/** How much of a request is used: `37%`. Undefined if either is not known. */
export function shareText(used: number, requested: number): string | undefined {
  return Number.isNaN(used) || requested === 0
    ? undefined
    : `${Math.round((used / requested) * 100)}%`;
}
