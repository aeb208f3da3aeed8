import type { Pod } from "@kip/k8s-types";
import type { ProbeCounts } from "../../usage.ts";
import type { MetricFamily } from "../../metrics/metrics-text.ts";

/**
 * The family of `/metrics/probes`, with a kubelet's name and labels. Omits deleted pods and containers that are not in their
 * pod.
 *
 * @see https://kubernetes.io/docs/reference/instrumentation/metrics/
 */
export function probeMetrics(
  counts: readonly ProbeCounts[],
  pods: readonly Pod[],
): readonly MetricFamily[] {
  const byUid = new Map(pods.map((pod) => [pod.metadata.uid, pod]));
  const samples = counts.flatMap(({ uid, container, kind, ...results }) => {
    const { metadata: { name = "", namespace = "" } = {}, spec } = byUid.get(uid) ?? {};
    const containers = [...(spec?.containers ?? []), ...(spec?.initContainers ?? [])];
    if (!containers.some((each) => each.name === container)) return [];
    const labels = { container, namespace, pod: name, pod_uid: uid, probe_type: kind };
    return (["successful", "failed", "unknown"] as const).flatMap((result) => {
      const value = results[result] ?? 0;
      return value > 0 ? [{ labels: { ...labels, result }, value }] : [];
    });
  });
  const help = "Probes of containers, by their result";
  return [{ name: "prober_probe_total", type: "counter", help, samples }];
}
