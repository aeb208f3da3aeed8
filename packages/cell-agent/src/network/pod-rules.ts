import { agentPort } from "@kip/agent-api";
import type { Logger } from "@kip/base";
import type * as routing from "@kip/service-routing";
import { followConnections } from "./tracked-connections.ts";
import { runNft, WaitingNft } from "./waiting-nft.ts";

/** Where a pod's rules apply. A pod with its own addresses has a cable. */
export type PodPlace = Omit<routing.RoutingPlace, "cable" | "machinePorts">;

/** Ports of the cell that kip needs. */
const machinePorts = [agentPort];

/** Options of the rules of a pod. */
export type PodRulesOptions = Pick<routing.NetworkRulesOptions, "takesOver">;

/** A pod's rules. They outlive the agent. */
export type PodRules = Pick<routing.NetworkRules, "apply" | "sums">;

/**
 * Starts nft before the pod arrives, and creates the pod's rules with it.
 *
 * @param cable name of the machine's end of the pod's cable
 * @param prepared tables that are already in force, if any
 */
export function podRulesFactory(
  { NetworkRules, forgetFlows }: typeof routing,
  options: {
    readonly cable: string;
    readonly prepared: routing.PreparedTables | undefined;
    readonly logger: Logger;
  },
): (place: PodPlace, options: PodRulesOptions) => PodRules {
  const nft = new WaitingNft();
  const { cable, prepared, logger } = options;
  let isFollowing = false;
  const follow = (): void => {
    if (isFollowing) return;
    isFollowing = true;
    try {
      followConnections();
    } catch (err) {
      logger.warn("Could not have the kernel follow more connections", { err });
    }
  };
  return (place, { takesOver }) =>
    new NetworkRules({
      takesOver,
      prepared,
      place: { ...place, machinePorts, cable: place.podAddresses.length > 0 ? cable : undefined },
      runNft: async (text) => {
        const printed = await nft.run(text);
        follow(); // the rules have loaded the module with these settings
        return printed;
      },
      forget: async (flows) => {
        await forgetFlows(flows);
      },
      logger,
    });
}

/** Puts the tables in force with which every pod's rules begin. Undefined if that fails. Each pod then creates its own. */
export async function preparedTables(
  { prepareTables }: typeof routing,
  { cable, logger }: { readonly cable: string; readonly logger: Logger },
): Promise<routing.PreparedTables | undefined> {
  try {
    return await prepareTables({ cable, machinePorts, runNft });
  } catch (err) {
    logger.warn("Could not prepare tables of network rules", { err });
    return undefined;
  }
}
