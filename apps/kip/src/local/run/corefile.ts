import type { ClusterDnsPlace } from "@kip/cloud-local";

/** File names in the name server's folder, which is its working directory. */
export const corefileName = "Corefile";
export const dnsKubeconfigName = "kubeconfig";

/**
 * Configuration of CoreDNS, similar to kubeadm's. Without resolvers, queries for names outside the cluster are refused.
 *
 * Names of the cluster are not cached. They are in memory already, and changes take effect at once.
 *
 * @see https://coredns.io/plugins/kubernetes/
 */
export function corefile({ address, resolvers }: Omit<ClusterDnsPlace, "namespaceFile">): string {
  const outside =
    resolvers.length === 0
      ? ""
      : `
    forward . ${resolvers.join(" ")} {
        max_concurrent 8000
    }
    loop`;
  return `.:53 {
    bind ${address}
    errors
    health 127.0.0.1:8080
    ready 127.0.0.1:8181
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        kubeconfig ${dnsKubeconfigName}
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }${outside}
    cache 30 {
        disable success cluster.local
        disable denial cluster.local
    }
    reload
    loadbalance
}
`;
}
