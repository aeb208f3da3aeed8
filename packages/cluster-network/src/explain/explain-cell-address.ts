import type { Pod } from "@kip/k8s-types";
import { canonicalAddress, ipFamily } from "@kip/network-view";
import { protocolOf } from "../services/service-view-of.ts";
import {
  addressesOf,
  hasEnded,
  nodeOf,
  podName,
  portsOf,
  type KnownCluster,
} from "./cluster-objects.ts";
import { explainPolicies } from "./explain-policies.ts";
import { serviceAt } from "./explain-service.ts";
import { after, finding, type Finding } from "./finding.ts";
import type { Attempt } from "./matching-rule.ts";

/** Addresses of a pod's host: its cell, or an ordinary node. */
export function hostAddressesOf({ status }: Pod): readonly string[] {
  const ips = status?.hostIPs?.map(({ ip }) => ip) ?? [status?.hostIP];
  return ips.flatMap((ip) => canonicalAddress(ip ?? "") ?? []);
}

/**
 * Explains a connection to a host port at the address of a cell. A host port has priority over a NodePort with the same number. The source's
 * policies see the cell's address, because packets are only translated on that cell. The policies of the destination pod see the container's port.
 *
 * @returns undefined if the address and port do not belong to a host port
 */
export function explainHostPort(
  cluster: KnownCluster,
  source: Pod,
  attempt: Attempt,
): Finding | undefined {
  for (const pod of cluster.objects.pods) {
    const port = containerPortAt(cluster, pod, attempt);
    const address = addressesOf(pod).find((each) => ipFamily(each) === ipFamily(attempt.address));
    if (port === undefined || address === undefined) continue;
    const lead = `${attempt.address} port ${attempt.port}/${attempt.protocol} is a host port of ${podName(pod)}`;
    const { protocol } = attempt;
    return after(
      [lead],
      explainPolicies(cluster, source, { address, port, protocol, seen: attempt }),
    );
  }
  return undefined;
}

/**
 * Explains a connection to a NodePort at the address of another pod's cell, as far as possible. That cell forwards it, and is the client for
 * all endpoints except its own pod.
 *
 * @returns undefined if the address and port do not belong to such a NodePort
 */
export function explainOthersNodePort(
  cluster: KnownCluster,
  attempt: Attempt,
): Finding | undefined {
  const hosts = cluster.objects.pods.filter((pod) => !hasEnded(pod)).flatMap(hostAddressesOf);
  if (!hosts.includes(attempt.address)) return undefined;
  const service = serviceAt(cluster, attempt, [attempt.address]);
  if (service?.isNodePort !== true) return undefined;
  return finding(
    "unknown",
    `${attempt.address} is the address of another pod's cell, and the port a NodePort of Service ${service.key}: policies of its endpoints see that cell as the client. Ask with an address of the pod's node`,
  );
}

/** The container's port behind a host port. */
function containerPortAt(
  { objects }: KnownCluster,
  pod: Pod,
  { address, port, protocol }: Attempt,
): number | undefined {
  const { spec } = pod;
  const isElsewhere = spec.hostNetwork === true || !hostAddressesOf(pod).includes(address);
  if (isElsewhere || hasEnded(pod)) return undefined;
  // The node's addresses mean those of the cell.
  const nodes = nodeOf(objects, spec.nodeName)?.status?.addresses ?? [];
  const meant = ["", "0.0.0.0", "::", address, ...nodes.map((each) => each.address)];
  return portsOf(pod).find(
    ({ hostPort, hostIP = "", protocol: text }) =>
      hostPort === port &&
      protocolOf(text) === protocol &&
      meant.includes(canonicalAddress(hostIP) ?? hostIP),
  )?.containerPort;
}
