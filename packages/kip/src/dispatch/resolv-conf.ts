import type { Pod } from "@kip/k8s-types";

/** Settings of this installation for name resolution in pods. */
export interface DnsSettings {
  /** Cluster DNS servers (`--cluster-dns`). Empty if the cluster has none. */
  readonly clusterDns: readonly string[];
  readonly clusterDomain: string;
  /** Name servers and search domains of the cells' network. */
  readonly hostNameservers: readonly string[];
  readonly hostSearchDomains: readonly string[];
}

/** A problem with a pod's name resolution: reason and message of an event, in the kubelet's words. */
export interface DnsProblem {
  readonly reason: "MissingClusterDNS" | "DNSConfigForming";
  readonly message: string;
}

/** The name resolution of a pod. */
export interface ResolvConf {
  /** Content of its `/etc/resolv.conf`. */
  readonly text: string;
  readonly problems: readonly DnsProblem[];
}

interface Resolver {
  readonly nameservers: readonly string[];
  readonly searches: readonly string[];
  readonly options: ReadonlyMap<string, string>;
}

/** The kubelet's limits, which are also those of resolvers. */
const most = {
  nameservers: 3,
  searches: 32,
  searchCharacters: 2048,
  domainCharacters: 253,
} as const;

/**
 * A pod's `/etc/resolv.conf`, by the kubelet's rules for `dnsPolicy` and `dnsConfig` (ClusterFirst falls back to Default
 * without a cluster DNS), and the kubelet's events for omitted entries.
 *
 * @see https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pod-s-dns-policy
 */
export function resolvConf(pod: Pod, settings: DnsSettings): ResolvConf {
  const base = policyBase(pod, settings);
  const extra = pod.spec.dnsConfig;
  const servers = unique([...base.nameservers, ...(extra?.nameservers ?? [])]);
  const domains = unique([...base.searches, ...(extra?.searches ?? [])]);
  const nameservers = servers.slice(0, most.nameservers);
  const searches = fittingSearches(domains);
  const options = new Map(base.options);
  for (const { name, value = "" } of extra?.options ?? []) {
    if (name !== undefined) options.set(name, value);
  }
  const lines = nameservers.map((server) => `nameserver ${server}`);
  if (searches.length > 0) lines.push(`search ${searches.join(" ")}`);
  if (options.size > 0) {
    const words = [...options].map(([name, value]) => (value === "" ? name : `${name}:${value}`));
    lines.push(`options ${words.join(" ")}`);
  }
  return {
    text: lines.map((line) => `${line}\n`).join(""),
    problems: [
      ...missingDns(pod, settings),
      ...leftOut(servers, nameservers, {
        limits: "Nameserver limits were exceeded, some nameservers",
        line: "nameserver line",
      }),
      ...leftOut(domains, searches, {
        limits: "Search Line limits were exceeded, some search paths",
        line: "search line",
      }),
    ],
  };
}

function policyBase(pod: Pod, settings: DnsSettings): Resolver {
  const options: ReadonlyMap<string, string> = new Map();
  if (pod.spec.dnsPolicy === "None") return { nameservers: [], searches: [], options };
  const { clusterDns, clusterDomain: domain, hostNameservers, hostSearchDomains } = settings;
  if (!usesClusterDns(pod) || clusterDns.length === 0)
    return { nameservers: hostNameservers, searches: hostSearchDomains, options };
  return {
    nameservers: clusterDns,
    searches: [
      `${pod.metadata.namespace}.svc.${domain}`,
      `svc.${domain}`,
      domain,
      ...hostSearchDomains,
    ],
    options: new Map([["ndots", "5"]]),
  };
}

function usesClusterDns({ spec }: Pod): boolean {
  const { dnsPolicy = "ClusterFirst", hostNetwork = false } = spec;
  return dnsPolicy === "ClusterFirstWithHostNet" || (dnsPolicy === "ClusterFirst" && !hostNetwork);
}

function missingDns(pod: Pod, { clusterDns }: DnsSettings): readonly DnsProblem[] {
  if (!usesClusterDns(pod) || clusterDns.length > 0) return [];
  const { name, namespace, uid } = pod.metadata;
  const why =
    'kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy';
  const message = `pod: "${name}_${namespace}(${uid})". ${why}. Falling back to "Default" policy.`;
  return [{ reason: "MissingClusterDNS", message }];
}

/** The first domains that fit, without those that crash some resolvers. */
function fittingSearches(domains: readonly string[]): readonly string[] {
  const fitting = domains
    .slice(0, most.searches)
    .filter((domain) => domain.length <= most.domainCharacters);
  while (fitting.join(" ").length > most.searchCharacters) fitting.pop();
  return fitting;
}

function leftOut(
  wanted: readonly string[],
  applied: readonly string[],
  words: { readonly limits: string; readonly line: string },
): readonly DnsProblem[] {
  if (applied.length === wanted.length) return [];
  const message = `${words.limits} have been omitted, the applied ${words.line} is: ${applied.join(" ")}`;
  return [{ reason: "DNSConfigForming", message }];
}

function unique(values: readonly string[]): string[] {
  return [...new Set(values)];
}
