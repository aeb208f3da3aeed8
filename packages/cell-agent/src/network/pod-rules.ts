import type { Logger } from "@kip/base";
import type * as routing from "@kip/service-routing";
import { WaitingNft } from "./waiting-nft.ts";

/** Where a pod's rules are for. A pod with addresses of its own has a cable. */
export type PodPlace = Omit<routing.RoutingPlace, "cable">;

/** Options of the rules of a pod. */
export type PodRulesOptions = Pick<routing.NetworkRulesOptions, "takesOver">;

/** A pod's rules, which outlive the agent. */
export type PodRules = Pick<routing.NetworkRules, "apply" | "sums">;

/**
 * Starts nft ahead of the pod, and makes the pod's rules with it.
 *
 * @param cable name of the machine's end of the pod's cable
 */
export function podRulesFactory(
  { NetworkRules, forgetFlows }: typeof routing,
  { cable, logger }: { readonly cable: string; readonly logger: Logger },
): (place: PodPlace, options: PodRulesOptions) => PodRules {
  const nft = new WaitingNft();
  return (place, options) =>
    new NetworkRules({
      ...options,
      place: { ...place, cable: place.podAddresses.length > 0 ? cable : undefined },
      runNft: async (text) => await nft.run(text),
      forget: async (flows) => {
        await forgetFlows(flows);
      },
      logger,
    });
}
