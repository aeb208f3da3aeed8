import type { Pod } from "@kip/k8s-types";
import type { VolumeFile } from "../pod-provider.ts";

/** Owner and mode of tokens, certificates and trust bundles in projected volumes. */
export type CredentialAccess = Pick<VolumeFile, "mode" | "owner">;

/**
 * The same rules as in a kubelet. If the specification makes all containers run as the same user, the files belong to that
 * user. If the pod has an `fsGroup`, they also belong to that group, which the agent sets. Otherwise they belong to root and
 * have the volume's mode.
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
