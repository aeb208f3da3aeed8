import type { DesiredNetwork } from "@kip/agent-api";
import type { Instance, NetworkFacts } from "@kip/cloud";

/**
 * The ranges to which a pod's packets keep the pod's own address: those of the cloud, and of the cluster's Services. Undefined
 * if packets always keep it: on a cell without a public address, a NAT gateway translates the pod's address like the cell's.
 *
 * @param network undefined while kip has no permission to watch the cluster's network
 */
export function directRanges(
  instance: Pick<Instance, "publicIp"> | undefined,
  { directRanges: ofCloud }: Pick<NetworkFacts, "directRanges">,
  network: DesiredNetwork | undefined,
): readonly string[] | undefined {
  if (instance?.publicIp === undefined || ofCloud === undefined) return undefined;
  return [...new Set([...ofCloud, ...(network?.serviceRanges ?? [])])];
}
