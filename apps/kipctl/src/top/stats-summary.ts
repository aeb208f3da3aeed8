import { decode } from "@kip/base";

/** Resource use of one pod. Undefined where the node has no value. */
export interface PodUsage {
  readonly podRef: { readonly namespace: string; readonly name: string; readonly uid: string };
  /** When it was measured, RFC 3339. */
  readonly time: string | undefined;
  /** Billionths of a CPU. */
  readonly cpuNanoCores: number | undefined;
  /** Memory that cannot be reclaimed. */
  readonly memoryBytes: number | undefined;
  /** Disk space of the pod's files: root file systems, logs and volumes on the machine. */
  readonly diskBytes: number | undefined;
}

const { integer, list, object, optional, string } = decode;

/** @see https://pkg.go.dev/k8s.io/kubelet/pkg/apis/stats/v1alpha1 */
const summary = object({
  pods: optional(
    list(
      object({
        podRef: object({ namespace: string, name: string, uid: string }),
        cpu: optional(object({ time: optional(string), usageNanoCores: optional(integer) })),
        memory: optional(object({ workingSetBytes: optional(integer) })),
        "ephemeral-storage": optional(object({ usedBytes: optional(integer) })),
      }),
    ),
  ),
});

/** Decodes a `/stats/summary`. @throws {DecodeError} `DECODE_FAILED` */
export function decodeSummary(document: unknown): readonly PodUsage[] {
  return (summary(document, "stats/summary").pods ?? []).map((pod) => ({
    podRef: pod.podRef,
    time: pod.cpu?.time,
    cpuNanoCores: pod.cpu?.usageNanoCores,
    memoryBytes: pod.memory?.workingSetBytes,
    diskBytes: pod["ephemeral-storage"]?.usedBytes,
  }));
}
