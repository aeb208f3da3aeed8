import type { Container, EphemeralContainer, Pod } from "@kip/k8s-types";
import type { Rejection } from "./rejection.ts";

const annotationPrefix = "container.apparmor.security.beta.kubernetes.io/";

/** Refuses a pod that wants to be confined by AppArmor: cells do not have it. In the kubelet's words for such a node. */
export function rejectAppArmor(pod: Pod): Rejection | undefined {
  const { initContainers = [], containers, ephemeralContainers = [] } = pod.spec;
  const all = [...initContainers, ...containers, ...ephemeralContainers];
  if (!all.some((container) => isConfined(pod, container))) return undefined;
  return {
    reason: "AppArmor",
    message: "Cannot enforce AppArmor: AppArmor is not enabled on the host",
  };
}

/** The container's profile goes before the pod's, and fields go before the annotation of older versions. */
function isConfined({ metadata, spec }: Pod, container: Container | EphemeralContainer): boolean {
  const profile =
    container.securityContext?.appArmorProfile ?? spec.securityContext?.appArmorProfile;
  if (profile) return profile.type !== "Unconfined";
  const annotation = metadata.annotations?.[`${annotationPrefix}${container.name}`];
  return annotation !== undefined && annotation !== "" && annotation !== "unconfined";
}
