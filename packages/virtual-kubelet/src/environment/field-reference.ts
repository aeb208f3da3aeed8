import type { Pod } from "@kip/k8s-types";

/** Fields whose values are known only with the pod's addresses. */
export const lateFields: readonly string[] = [
  "status.podIP",
  "status.podIPs",
  "status.hostIP",
  "status.hostIPs",
];

/**
 * The value of a pod's field for `fieldRef`, in environments and downward API volumes. Undefined for an unsupported path.
 * Missing labels and annotations are empty.
 *
 * @param path for example `metadata.labels['app']`
 * @see https://kubernetes.io/docs/concepts/workloads/pods/downward-api/#available-fields
 */
export function fieldValue(pod: Pod, path: string): string | undefined {
  const subscript = /^metadata\.(labels|annotations)\['(.+)'\]$/s.exec(path);
  if (subscript) {
    const [, map, key = ""] = subscript;
    const values = map === "labels" ? pod.metadata.labels : pod.metadata.annotations;
    return values && Object.hasOwn(values, key) ? (values[key] ?? "") : "";
  }
  const read = Object.hasOwn(plainFields, path) ? plainFields[path] : undefined;
  return read && (read(pod) ?? "");
}

const plainFields: Readonly<Record<string, (pod: Pod) => string | undefined>> = {
  "metadata.name": (pod) => pod.metadata.name,
  "metadata.namespace": (pod) => pod.metadata.namespace,
  "metadata.uid": (pod) => pod.metadata.uid,
  "metadata.labels": (pod) => mapText(pod.metadata.labels),
  "metadata.annotations": (pod) => mapText(pod.metadata.annotations),
  "spec.nodeName": (pod) => pod.spec.nodeName,
  "spec.host": (pod) => pod.spec.nodeName,
  "spec.serviceAccountName": (pod) => pod.spec.serviceAccountName,
  "spec.restartPolicy": (pod) => pod.spec.restartPolicy,
  "spec.schedulerName": (pod) => pod.spec.schedulerName,
  "status.phase": (pod) => pod.status?.phase,
};

/** A map in the downward API's format: sorted lines `key="value"`. */
function mapText(map: Readonly<Record<string, string>> | undefined): string {
  return Object.entries(map ?? {})
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, value]) => `${key}=${quoted(value)}`)
    .join("\n");
}

/** Characters that Go does not print, and those that are special in a quoted text. */
const unprintable = /["\\]|[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu;

/** Escapes with one letter: those of JSON, and two more of Go's. */
const letters: ReadonlyMap<string, string> = new Map([
  ["\x07", "\\a"],
  ["\v", "\\v"],
  ...['"', "\\", "\b", "\f", "\n", "\r", "\t"].map(
    (char) => [char, JSON.stringify(char).slice(1, -1)] as const,
  ),
]);

/**
 * Quotes a text like Go. This differs from JSON for control characters and other unprintable ones.
 *
 * @see https://pkg.go.dev/strconv#Quote
 */
function quoted(text: string): string {
  const escaped = text.replace(unprintable, (char) => {
    const letter = letters.get(char);
    if (letter !== undefined) return letter;
    const code = char.codePointAt(0) ?? 0;
    if (code < 0x80) return `\\x${code.toString(16).padStart(2, "0")}`;
    return code < 0x10000
      ? `\\u${code.toString(16).padStart(4, "0")}`
      : `\\U${code.toString(16).padStart(8, "0")}`;
  });
  return `"${escaped}"`;
}
