import type { Pod } from "@kip/k8s-types";
import type { Rejection } from "./rejection.ts";

const annotationPrefix = "container.apparmor.security.beta.kubernetes.io/";

/**
 * Refuses a pod with an AppArmor profile, because cells do not have AppArmor. Uses the kubelet's words for such a node. As in
 * the kubelet, one profile is enough, even the pod's when all containers are Unconfined, or one for a container that the pod
 * does not have.
 */
export function rejectAppArmor({ metadata, spec }: Pod): Rejection | undefined {
  const { initContainers = [], containers, ephemeralContainers = [] } = spec;
  const all = [spec, ...initContainers, ...containers, ...ephemeralContainers];
  const profiles = all.map(({ securityContext }) => securityContext?.appArmorProfile?.type);
  const annotations = Object.entries(metadata.annotations ?? {})
    .filter(([name]) => name.startsWith(annotationPrefix))
    .map(([, value]) => value);
  const isConfined =
    profiles.some((type) => type !== undefined && type !== "Unconfined") ||
    annotations.some((value) => value !== "unconfined");
  if (!isConfined) return undefined;
  return {
    reason: "AppArmor",
    message: "Cannot enforce AppArmor: AppArmor is not enabled on the host",
  };
}
