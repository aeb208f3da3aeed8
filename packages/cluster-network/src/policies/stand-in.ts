import type { EndpointSlice } from "@kip/k8s-types/network";
import { canonicalAddress } from "@kip/network-view";
import { protocolOf } from "../services/service-view-of.ts";
import type { PodFacts } from "./pod-facts.ts";

/** Used as a UID. No pod has it, because it contains a slash. */
export const standInUid = "kube-system/kube-dns";

/**
 * The name server of `kip up` is not a pod, but policies must be able to select it as in other clusters: in `kube-system`, by the label
 * `k8s-app=kube-dns`. So its EndpointSlice, which kip writes, is treated as a pod. This gives no more power to users who may write that
 * slice: they control the cluster's DNS anyway. Policies do not restrict the name server itself.
 *
 * @returns undefined for every other slice
 */
export function standInOf({ metadata, endpoints, ports }: EndpointSlice): PodFacts | undefined {
  const { namespace, name, labels } = metadata;
  const isOwn = labels?.["endpointslice.kubernetes.io/managed-by"] === "kip.elotl.co";
  if (!isOwn || `${namespace}/${name}` !== standInUid) return undefined;
  return {
    namespace,
    name,
    labels: { "k8s-app": "kube-dns" },
    addresses: (endpoints ?? []).flatMap((one) => canonicalAddress(one.addresses[0] ?? "") ?? []),
    ports: (ports ?? []).flatMap(({ name: port, protocol, port: number }) =>
      port === undefined || number === undefined
        ? []
        : [{ name: port, protocol: protocolOf(protocol), port: number }],
    ),
  };
}
