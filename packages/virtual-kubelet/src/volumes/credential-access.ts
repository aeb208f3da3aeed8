import type { Pod } from "@kip/k8s-types";
import type { VolumeFile } from "../pod-provider.ts";

/** Who may read tokens, certificates and trust bundles of projected volumes. */
export type CredentialAccess = Pick<VolumeFile, "mode" | "owner">;

/**
 * As a kubelet has it: files of a pod whose containers all run as one user that its specification names are that user's alone, and
 * those of a pod with an `fsGroup` that group's besides, which the agent adds. Else they are root's, with the volume's mode.
 */
export function credentialAccess({ spec }: Pod, defaultMode: number): CredentialAccess {
  const owner = onlyUser(spec);
  if (owner !== undefined) return { mode: 0o600, owner };
  return { mode: spec.securityContext?.fsGroup === undefined ? defaultMode : 0o600 };
}

function onlyUser(spec: Pod["spec"]): number | undefined {
  const { initContainers = [], containers, ephemeralContainers = [], securityContext } = spec;
  const users = [...initContainers, ...containers, ...ephemeralContainers].map(
    (each) => each.securityContext?.runAsUser ?? securityContext?.runAsUser,
  );
  return new Set(users).size === 1 ? users[0] : undefined;
}
