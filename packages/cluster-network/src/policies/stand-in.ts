import type { EndpointSlice } from "@kip/k8s-types/network";
import { canonicalAddress } from "@kip/network-view";
import { protocolOf } from "../services/service-view-of.ts";
import type { PodFacts } from "./pod-facts.ts";

/** Names what policies select like a pod; a pod's UID is never the same. */
export const standInUid = "kube-system/kube-dns";

/**
 * The name server of `kip up` is not a pod. Policies select it by what users write for the one that kubeadm makes: in
 * `kube-system`, with the label `k8s-app=kube-dns`. Kip's own EndpointSlice says where it is; who may write that one leads all
 * names of the cluster anyway. Policies do not restrict it.
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
