import type { Pod } from "@kip/k8s-types";
import type { ProbeCounts } from "../../usage.ts";
import type { MetricFamily } from "./metrics-text.ts";

/**
 * The family of `/metrics/probes` by a kubelet's name and labels. Pods that are gone are left out.
 * @see https://kubernetes.io/docs/reference/instrumentation/metrics/
 */
export function probeMetrics(
  counts: readonly ProbeCounts[],
  pods: readonly Pod[],
): readonly MetricFamily[] {
  const byUid = new Map(pods.map((pod) => [pod.metadata?.uid, pod.metadata]));
  const samples = counts.flatMap(({ uid, container, kind, ...results }) => {
    const { name = "", namespace = "" } = byUid.get(uid) ?? {};
    if (!byUid.has(uid)) return [];
    const labels = { container, namespace, pod: name, pod_uid: uid, probe_type: kind };
    return (["successful", "failed", "unknown"] as const).flatMap((result) => {
      const value = results[result] ?? 0;
      return value > 0 ? [{ labels: { ...labels, result }, value }] : [];
    });
  });
  const help = "Probes of containers, by their result";
  return [{ name: "prober_probe_total", type: "counter", help, samples }];
}
