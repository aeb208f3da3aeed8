import { clusterWide } from "@kip/k8s-client";
import type { TierKind } from "../policies/tier-policy.ts";

/** API group of administrators' policies. */
export const tierGroup = "policy.networking.k8s.io";

/** A kind of administrators' policies, with the supported versions, the preferred one first. */
export interface TierResource {
  readonly kind: TierKind;
  /** Its plural. */
  readonly resource: string;
  readonly versions: readonly string[];
}

/** All supported kinds. They may or may not be installed. */
export const tierResources: readonly TierResource[] = [
  { kind: "AdminNetworkPolicy", resource: "adminnetworkpolicies", versions: ["v1alpha1"] },
  {
    kind: "BaselineAdminNetworkPolicy",
    resource: "baselineadminnetworkpolicies",
    versions: ["v1alpha1"],
  },
  {
    kind: "ClusterNetworkPolicy",
    resource: "clusternetworkpolicies",
    versions: ["v1beta1", "v1alpha2"],
  },
];

/** Path of all policies of a kind. */
export function tierPath({ resource }: TierResource, version: string): string {
  return clusterWide(`/apis/${tierGroup}/${version}`, resource)();
}
