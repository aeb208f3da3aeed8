import { parseQuantity } from "@kip/base";
import type { Pod } from "@kip/k8s-types";

/**
 * Quality of service class by the kubelet's rules.
 *
 * @see https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/
 */
export function qosClass(pod: Pod): "Guaranteed" | "Burstable" | "BestEffort" {
  const containers = [...(pod.spec?.initContainers ?? []), ...(pod.spec?.containers ?? [])];
  const amounts = containers.flatMap(({ resources }) => {
    const { limits = {}, requests = {} } = resources ?? {};
    return ["cpu", "memory"].map((name) => ({
      limit: limits[name],
      request: requests[name] ?? limits[name],
    }));
  });
  if (amounts.every(({ limit, request }) => limit === undefined && request === undefined))
    return "BestEffort";
  const isGuaranteed = amounts.every(
    ({ limit, request }) =>
      limit !== undefined &&
      request !== undefined &&
      parseQuantity(limit) === parseQuantity(request),
  );
  return isGuaranteed ? "Guaranteed" : "Burstable";
}
