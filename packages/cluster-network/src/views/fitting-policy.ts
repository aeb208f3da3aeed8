import { defined } from "@kip/base";
import { encodeLine, hasTiers, type PolicyView } from "@kip/network-view";
import { isReadable } from "./is-readable.ts";

/**
 * A policy that no cell takes lets nothing pass in the directions that it restricts: its line would end the connection. The same is
 * true of tiers on a cell whose agent does not know them.
 *
 * @param knowsTiers whether the cell's agent does
 */
export function fittingPolicy(policy: PolicyView, knowsTiers = true): PolicyView {
  const isKnown = knowsTiers || !hasTiers(policy);
  const fits = isKnown && isReadable(encodeLine({ kind: "policy", policy }));
  return fits ? policy : closed(policy, isKnown);
}

/** @param isAll close also what only NetworkPolicies restrict, which may be what is too long */
function closed({ ingress, egress, admin, baseline }: PolicyView, isAll: boolean): PolicyView {
  const inTiers = {
    ingress: admin?.ingress ?? baseline?.ingress,
    egress: admin?.egress ?? baseline?.egress,
  };
  return defined({
    ingress: inTiers.ingress ? [] : isAll ? ingress && [] : ingress,
    egress: inTiers.egress ? [] : isAll ? egress && [] : egress,
  });
}
