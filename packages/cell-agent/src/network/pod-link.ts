import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { CommandError, runCommand, type Logger } from "@kip/base";
import { bandwidthOf, type Bandwidth, type DesiredPod } from "@kip/agent-api";
import type * as routing from "@kip/service-routing";
import { egressDevice, shapingCommands } from "./bandwidth.ts";

/** Settings of a pod's link to its cell, in addition to the address. */
export interface PodLink {
  readonly podAddresses: readonly string[];
  readonly hostPorts: readonly routing.HostPort[];
  /** See `DesiredPod.directRanges`. */
  readonly directRanges?: readonly string[] | undefined;
  readonly bandwidth: Bandwidth;
  /** Whether the pod gets rules for Services and policies. Without rules, all traffic passes. */
  readonly hasRules: boolean;
  /** Whether a container has run. The link then has its limits, and keeps them. */
  readonly hasRun: boolean;
}

/**
 * The link settings of a pod. Undefined with host networking. An annotation that was made invalid after a container has run is
 * ignored.
 *
 * @throws {AgentError} `AGENT_BANDWIDTH_INVALID`
 */
export function podLink(pod: DesiredPod, hasRun: boolean): PodLink | undefined {
  const { hostNetwork, podIp, ipv6, hostPorts = [], directRanges, annotations, network } = pod;
  if (hostNetwork || podIp === undefined) return undefined;
  return {
    podAddresses: [podIp, ipv6?.podIp ?? []].flat(),
    hostPorts,
    ...(directRanges && { directRanges }),
    bandwidth: limits(annotations, hasRun),
    hasRules: network !== undefined,
    hasRun,
  };
}

function limits(annotations: DesiredPod["annotations"], hasRun: boolean): Bandwidth {
  try {
    return bandwidthOf(annotations);
  } catch (error) {
    if (hasRun) return {};
    throw error;
  }
}

/**
 * Sets up links in the cell's own namespace, where no container can change them. May be repeated. The link outlives the agent.
 *
 * @param options.cable name of the cell's end of the pod's cable
 */
export function linkMaker(
  {
    hostPortTables,
    egressTables,
    openPreparedTables,
    staleHostPortFlows,
    forgetFlows,
  }: Pick<
    typeof routing,
    "hostPortTables" | "egressTables" | "openPreparedTables" | "staleHostPortFlows" | "forgetFlows"
  >,
  { cable, logger }: { readonly cable: string; readonly logger: Logger },
): (link: PodLink) => Promise<void> {
  return async ({ podAddresses, hostPorts, directRanges, bandwidth, hasRules, hasRun }) => {
    await shapeOnce({ bandwidth, hasRun }, cable);
    const egress = directRanges ? egressTables({ podAddresses, cable, directRanges }) : "";
    // A pod that has run may have rules from an earlier document.
    const input = egress + (hasRules || hasRun ? "" : openPreparedTables);
    if (input !== "") await runCommand("/usr/sbin/nft", ["-f", "-"], { input });
    if (hostPorts.length === 0) return;
    // Add the rules first, because they keep the pod away from the cell's loopback addresses.
    const rules = hostPortTables(hostPorts, { podAddresses, cable });
    await runCommand("/usr/sbin/nft", ["-f", "-"], { input: rules });
    writeFileSync(`/proc/sys/net/ipv4/conf/${cable}/route_localnet`, "1");
    const stale = staleHostPortFlows(hostPorts, podAddresses);
    if (hasRun || stale.length === 0) return;
    await forgetFlows(stale).catch((err: unknown) =>
      logger.warn("Could not end connections to host ports from before the pod", { err }),
    );
  };
}

/** The link's alias once its limits are set, even if it has none. The link then keeps them, whatever annotations say later. */
const shapedAlias = "limits-set";

/** @param hasRun see {@link PodLink}; the link may still be a new one */
async function shapeOnce(
  { bandwidth, hasRun }: Pick<PodLink, "bandwidth" | "hasRun">,
  cable: string,
): Promise<void> {
  const alias = `/sys/class/net/${cable}/ifalias`;
  const isShaped = readFileSync(alias, "utf8").trim() === shapedAlias;
  if (isShaped && hasRun) return;
  const hasLimits = Object.values(bandwidth).some((bits) => bits !== undefined);
  if (isShaped || hasLimits) await shape(bandwidth, cable);
  writeFileSync(alias, shapedAlias);
}

async function shape(bandwidth: Bandwidth, cable: string): Promise<void> {
  const { egressBits } = bandwidth;
  const out = egressDevice(cable);
  // An earlier attempt or process of the agent may have left these.
  await removeIfThere(`qdisc del dev ${cable} root`);
  await removeIfThere(`qdisc del dev ${cable} ingress`);
  if (existsSync(`/sys/class/net/${out}`)) await runCommand("/usr/sbin/ip", ["link", "del", out]);
  if (egressBits !== undefined) {
    const mtu = readFileSync(`/sys/class/net/${cable}/mtu`, "utf8").trim();
    const lines = [`link add name ${out} mtu ${mtu} type ifb`, `link set ${out} up`];
    await runCommand("/usr/sbin/ip", ["-batch", "-"], { input: `${lines.join("\n")}\n` });
  }
  const commands = shapingCommands(bandwidth, cable);
  if (commands.length > 0)
    await runCommand("/usr/sbin/tc", ["-batch", "-"], { input: `${commands.join("\n")}\n` });
}

async function removeIfThere(command: string): Promise<void> {
  await runCommand("/usr/sbin/tc", command.split(" ")).catch((error: unknown) => {
    if (!CommandError.is(error, "COMMAND_FAILED")) throw error;
  });
}
