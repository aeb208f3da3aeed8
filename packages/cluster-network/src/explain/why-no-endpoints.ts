import type { StoredService } from "@kip/k8s-types/network";
import type { ServicePortView } from "@kip/network-view";
import { matchesLabels } from "@kip/k8s-client";
import type { KnownCluster } from "./cluster-objects.ts";
import { whyNotReady } from "./readiness.ts";

/** How many pods are named at most. */
const maxPods = 10;

/** Why a Service has no endpoint that gets connections, as sentences. @param port absent for a headless Service */
export function whyNoEndpoints(
  { index, objects }: KnownCluster,
  { metadata, spec }: StoredService,
  port: ServicePortView | undefined,
): readonly string[] {
  const key = `${metadata.namespace}/${metadata.name}`;
  const slices = index.slices(key);
  const selector = spec?.selector;
  if (!selector || Object.keys(selector).length === 0)
    return [
      slices.length === 0
        ? `Service ${key} has no selector, and there is no EndpointSlice for it`
        : `Service ${key} has no selector, and no endpoint of its EndpointSlices is ready at this port`,
    ];
  const labels = Object.entries(selector).map(([name, value]) => `${name}=${value}`);
  const selected = objects.pods.filter(
    (pod) =>
      pod.metadata.namespace === metadata.namespace &&
      matchesLabels({ matchLabels: selector }, pod.metadata.labels ?? {}),
  );
  if (selected.length === 0) return [`No pod has its selector's labels ${labels.join(", ")}`];
  const reasons = selected.flatMap((pod) => whyNotReady(pod) ?? []);
  if (reasons.length < selected.length) {
    const name = port?.name === undefined || port.name === "" ? "" : ` "${port.name}"`;
    return [
      `Pods that it selects are ready, but no endpoint has the port${name}: is its target port a name that no container has?`,
    ];
  }
  const more = reasons.length - maxPods;
  return [...reasons.slice(0, maxPods), ...(more > 0 ? [`${more} more pods are not ready`] : [])];
}
