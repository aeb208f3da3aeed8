import { defined } from "@kip/base";
import { encodeLine, groupsOf, hasTiers, limits, type PolicyView } from "@kip/network-view";
import type { AddressGroups } from "../policies/address-groups.ts";
import { isReadablePolicy } from "./is-readable.ts";

/** Of one change: it has the policy, all its groups and some Services. */
export const mostGroupBytes = limits.changeBytes / 2;

/** A policy, and the line that says it: that may have megabytes, and is encoded once. */
export interface PolicyLine {
  readonly policy: PolicyView;
  readonly line: string;
}

/** Encodes a policy. */
export function policyLine(policy: PolicyView): PolicyLine {
  return { policy, line: encodeLine({ kind: "policy", policy }) };
}

/** About how many bytes the addresses of groups take. */
export function groupBytesOf(
  names: ReadonlySet<string>,
  groups: Pick<AddressGroups, "sizeOf">,
): number {
  let bytes = 0;
  for (const name of names) bytes += groups.sizeOf(name).bytes;
  return bytes;
}

/**
 * A policy that no cell takes lets nothing pass in the directions that it restricts: its line would end the connection. The same is
 * true of tiers on a cell whose agent does not know them.
 *
 * @param groups those that the policy names are in it
 * @param knowsTiers whether the cell's agent does
 */
export function fittingPolicy(
  policy: PolicyView,
  groups: Pick<AddressGroups, "sizeOf">,
  knowsTiers = true,
): PolicyLine {
  const known = knowsTiers || !hasTiers(policy) ? policy : withoutTiers(policy);
  if (groupBytesOf(groupsOf(known), groups) > mostGroupBytes) return policyLine(closed(known));
  const encoded = policyLine(known);
  return isReadablePolicy(encoded.line, known) ? encoded : policyLine(closed(known));
}

/** Tiers become directions that nothing passes in. */
function withoutTiers({ ingress, egress, admin, baseline }: PolicyView): PolicyView {
  return defined({
    ingress: admin?.ingress || baseline?.ingress ? [] : ingress,
    egress: admin?.egress || baseline?.egress ? [] : egress,
  });
}

/** Nothing passes in any direction that is restricted. */
function closed(policy: PolicyView): PolicyView {
  const { ingress, egress } = withoutTiers(policy);
  return defined({ ingress: ingress && [], egress: egress && [] });
}
