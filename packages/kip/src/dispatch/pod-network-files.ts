import type { Pod } from "@kip/k8s-types";
import { ProviderError } from "../errors.ts";

/** Maximum length of a host name in Linux, bytes. In pod names each character is one byte. */
const maxKernelName = 64;

/**
 * The pod's host name: `spec.hostnameOverride`, `spec.hostname`, or its name, truncated to 63 characters like in the kubelet.
 */
export function podHostname({ spec, metadata }: Pod): string {
  const name = spec.hostnameOverride ?? spec.hostname ?? metadata.name;
  return name.slice(0, 63).replace(/[-.]+$/, "");
}

/** The pod's name with its subdomain. Undefined if it has none, or has another name instead. */
function fullName(pod: Pod, clusterDomain: string): string | undefined {
  const { subdomain, hostnameOverride } = pod.spec;
  if (subdomain === undefined || hostnameOverride !== undefined) return undefined;
  const namespace = pod.metadata.namespace;
  return `${podHostname(pod)}.${subdomain}.${namespace}.svc.${clusterDomain}`;
}

/** The kernel's host name: the fully qualified name if the pod requests that and has one. */
export function kernelHostname(pod: Pod, clusterDomain: string): string {
  const wanted = pod.spec.setHostnameAsFQDN === true ? fullName(pod, clusterDomain) : undefined;
  return wanted ?? podHostname(pod);
}

/**
 * Checks that a kernel accepts the pod's host name, with the kubelet's message. As on a node, such a pod waits. With host
 * networking, it has the cell's name instead.
 *
 * @throws {ProviderError} code `FAILED_CREATE_POD_SAND_BOX`
 */
export function checkKernelHostname(pod: Pod, clusterDomain: string): void {
  const name = kernelHostname(pod, clusterDomain);
  if (name.length <= maxKernelName || pod.spec.hostNetwork === true) return;
  const why = `FQDN ${name} is too long (${maxKernelName} characters is the max, ${name.length} characters requested)`;
  throw new ProviderError(
    "FAILED_CREATE_POD_SAND_BOX",
    `Failed to create pod sandbox: failed to construct FQDN from pod hostname and cluster domain, ${why}`,
    { remedy: "Give the pod a shorter hostname or subdomain, or no setHostnameAsFQDN" },
  );
}

/**
 * Content of a pod's `/etc/hosts`, in the kubelet's layout. With host networking, it is a first line, after which the cell's
 * agent inserts the cell's own file, and the lines after that.
 */
export function etcHosts(pod: Pod, podIps: readonly string[], clusterDomain: string): string {
  if (pod.spec.hostNetwork === true)
    return lines("# Kubernetes-managed hosts file (host network).", ...aliasLines(pod));
  const names = [fullName(pod, clusterDomain) ?? [], podHostname(pod)].flat();
  return lines(
    "# Kubernetes-managed hosts file.",
    "127.0.0.1\tlocalhost",
    "::1\tlocalhost ip6-localhost ip6-loopback",
    "fe00::0\tip6-localnet",
    "fe00::0\tip6-mcastprefix",
    "fe00::1\tip6-allnodes",
    "fe00::2\tip6-allrouters",
    ...podIps.map((ip) => [ip, ...names].join("\t")),
    ...aliasLines(pod),
  );
}

function aliasLines(pod: Pod): readonly string[] {
  const aliases = pod.spec.hostAliases ?? [];
  if (aliases.length === 0) return [];
  const entries = aliases.map(({ ip, hostnames = [] }) => [ip, ...hostnames].join("\t"));
  return ["", "# Entries added by HostAliases.", ...entries];
}

function lines(...all: readonly string[]): string {
  return all.map((line) => `${line}\n`).join("");
}
