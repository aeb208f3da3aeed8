import { writeFileSync } from "node:fs";
import { runCommand } from "@kip/base";
import type { DesiredPod } from "@kip/agent-api";
import type * as routing from "@kip/service-routing";

/** What a pod's link to its cell has besides the address. */
export interface PodLink {
  readonly podAddresses: readonly string[];
  readonly hostPorts: readonly routing.HostPort[];
}

/** The link that a pod wants; undefined if it wants nothing of it, or has the cell's own network. */
export function podLink(pod: DesiredPod): PodLink | undefined {
  const { hostNetwork, podIp, hostPorts = [] } = pod;
  if (hostNetwork || podIp === undefined || hostPorts.length === 0) return undefined;
  return { podAddresses: [podIp], hostPorts };
}

/**
 * Sets up links, in the cell's own namespace: no container can change them. May be repeated; the link outlives the agent.
 *
 * @param cable name of the cell's end of the pod's cable
 */
export function linkMaker(
  { hostPortTables }: Pick<typeof routing, "hostPortTables">,
  cable: string,
): (link: PodLink) => Promise<void> {
  return async ({ podAddresses, hostPorts }) => {
    if (hostPorts.length === 0) return;
    // The rules come first: they keep the pod from the cell's loopback addresses.
    const rules = hostPortTables(hostPorts, { podAddresses, cable });
    await runCommand("/usr/sbin/nft", ["-f", "-"], { input: rules });
    writeFileSync(`/proc/sys/net/ipv4/conf/${cable}/route_localnet`, "1");
  };
}
