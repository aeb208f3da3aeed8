import type { Pod } from "@kip/k8s-types";

/** Fields that have a value only when the pod has its addresses. */
export const lateFields: readonly string[] = [
  "status.podIP",
  "status.podIPs",
  "status.hostIP",
  "status.hostIPs",
];

/**
 * The value of a pod's field for `fieldRef`, in environment and downward API volumes; undefined for
 * a path that has no such meaning. Labels and annotations that are not there are empty.
 *
 * @param path for example `metadata.labels['app']`
 * @see https://kubernetes.io/docs/concepts/workloads/pods/downward-api/#available-fields
 */
export function fieldValue(pod: Pod, path: string): string | undefined {
  const subscript = /^metadata\.(labels|annotations)\['(.+)'\]$/s.exec(path);
  if (subscript) {
    const [, map, key = ""] = subscript;
    const values = map === "labels" ? pod.metadata?.labels : pod.metadata?.annotations;
    return values?.[key] ?? "";
  }
  const read = plainFields[path];
  return read && (read(pod) ?? "");
}

const plainFields: Readonly<Record<string, (pod: Pod) => string | undefined>> = {
  "metadata.name": (pod) => pod.metadata?.name,
  "metadata.namespace": (pod) => pod.metadata?.namespace,
  "metadata.uid": (pod) => pod.metadata?.uid,
  "metadata.labels": (pod) => mapText(pod.metadata?.labels),
  "metadata.annotations": (pod) => mapText(pod.metadata?.annotations),
  "spec.nodeName": (pod) => pod.spec?.nodeName,
  "spec.host": (pod) => pod.spec?.nodeName,
  "spec.serviceAccountName": (pod) => pod.spec?.serviceAccountName,
  "spec.restartPolicy": (pod) => pod.spec?.restartPolicy,
  "spec.schedulerName": (pod) => pod.spec?.schedulerName,
  "status.phase": (pod) => pod.status?.phase,
};

/** A map as the downward API writes it: sorted lines `key="value"`. */
function mapText(map: Readonly<Record<string, string>> | undefined): string {
  return Object.entries(map ?? {})
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, value]) => `${key}=${JSON.stringify(value)}`)
    .join("\n");
}
