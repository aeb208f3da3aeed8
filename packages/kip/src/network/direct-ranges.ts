import type { DesiredNetwork } from "@kip/agent-api";
import type { Instance, NetworkFacts } from "@kip/cloud";

/**
 * Where a pod's packets keep its own address: the cloud's ranges, and those of the cluster's Services. Undefined where they do so
 * everywhere: on a cell without a public address a NAT gateway, if there is one, serves the pod's address like the cell's.
 *
 * @param network undefined while kip may not watch the cluster's network
 */
export function directRanges(
  instance: Pick<Instance, "publicIp"> | undefined,
  { directRanges: ofCloud }: Pick<NetworkFacts, "directRanges">,
  network: DesiredNetwork | undefined,
): readonly string[] | undefined {
  if (instance?.publicIp === undefined || ofCloud === undefined) return undefined;
  return [...new Set([...ofCloud, ...(network?.serviceRanges ?? [])])];
}
