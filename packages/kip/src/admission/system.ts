import type { Pod } from "@kip/k8s-types";
import type { Rejection } from "./rejection.ts";

/** Refuses a pod whose label names another operating system. The kubelet also checks the pod's label here. */
export function rejectOsLabel({ metadata }: Pod): Rejection | undefined {
  if ((metadata.labels?.["kubernetes.io/os"] ?? "linux") === "linux") return undefined;
  return {
    reason: "PodOSSelectorNodeLabelDoesNotMatch",
    message: "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
  };
}

/** Refuses a pod for another operating system than Linux. */
export function rejectOs({ spec }: Pod): Rejection | undefined {
  if ((spec.os?.name ?? "linux") === "linux") return undefined;
  return {
    reason: "PodOSNotSupported",
    message: "Failed to admit pod as the OS field doesn't match node OS",
  };
}
