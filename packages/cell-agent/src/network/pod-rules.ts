import { agentPort } from "@kip/agent-api";
import type { Logger } from "@kip/base";
import type * as routing from "@kip/service-routing";
import { followConnections } from "./tracked-connections.ts";
import { runNft, WaitingNft } from "./waiting-nft.ts";

/** Where a pod's rules are for. A pod with addresses of its own has a cable. */
export type PodPlace = Omit<routing.RoutingPlace, "cable" | "machinePorts">;

/** Kip's way to the cell. */
const machinePorts = [agentPort];

/** Options of the rules of a pod. */
export type PodRulesOptions = Pick<routing.NetworkRulesOptions, "takesOver">;

/** A pod's rules, which outlive the agent. */
export type PodRules = Pick<routing.NetworkRules, "apply" | "sums">;

/**
 * Starts nft ahead of the pod, and makes the pod's rules with it.
 *
 * @param cable name of the machine's end of the pod's cable
 * @param prepared tables that are in force already, if there are any
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
  let areFollowed = false;
  const follow = (): void => {
    if (areFollowed) return;
    areFollowed = true;
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
        follow(); // rules have loaded what the settings are of
        return printed;
      },
      forget: async (flows) => {
        await forgetFlows(flows);
      },
      logger,
    });
}

/** Puts tables in force that every pod's rules begin with; undefined if that fails, and each pod makes its own. */
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
