import { defined } from "@kip/base";
import { encodeLine, hasTiers, limits, type PolicyView } from "@kip/network-view";
import type { AddressGroups } from "../policies/address-groups.ts";
import { groupsOf } from "./cell-view.ts";
import { isReadable } from "./is-readable.ts";

/** Of one change: it has the policy, all its groups and some Services. */
const mostGroupBytes = limits.changeBytes / 2;

/**
 * A policy that no cell takes lets nothing pass in the directions that it restricts: its line would end the connection. The same is
 * true of tiers on a cell whose agent does not know them.
 *
 * @param groups those that the policy names are in it
 * @param knowsTiers whether the cell's agent does
 */
export function fittingPolicy(
  policy: PolicyView,
  groups: Pick<AddressGroups, "bytes">,
  knowsTiers = true,
): PolicyView {
  const isKnown = knowsTiers || !hasTiers(policy);
  let groupBytes = 0;
  for (const name of groupsOf(policy)) groupBytes += groups.bytes(name);
  const areFew = groupBytes <= mostGroupBytes;
  const fits = isKnown && areFew && isReadable(encodeLine({ kind: "policy", policy }));
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
