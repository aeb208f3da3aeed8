import { parseQuantity } from "@kip/base";
import type { Pod } from "@kip/k8s-types";

/**
 * The quality-of-service class. Uses the one from the API server, which also considers the resources of the pod itself.
 * Otherwise: Guaranteed if every container has equal CPU and memory requests and limits, BestEffort if none has any, and else
 * Burstable.
 *
 * @see https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/
 */
export function qosClass(pod: Pod): string {
  const known = pod.status?.qosClass;
  if (known !== undefined) return known;
  const containers = [...(pod.spec.initContainers ?? []), ...(pod.spec.containers ?? [])];
  const amounts = containers.flatMap(({ resources: { limits = {}, requests = {} } = {} }) =>
    ["cpu", "memory"].map((name) => ({
      limit: amount(limits[name]),
      request: amount(requests[name] ?? limits[name]),
    })),
  );
  if (amounts.every(({ limit, request }) => limit === 0 && request === 0)) return "BestEffort";
  const isGuaranteed = amounts.every(({ limit, request }) => limit > 0 && limit === request);
  return isGuaranteed ? "Guaranteed" : "Burstable";
}

/** Zero counts as not set. */
function amount(quantity: string | undefined): number {
  return quantity === undefined ? 0 : parseQuantity(quantity);
}
