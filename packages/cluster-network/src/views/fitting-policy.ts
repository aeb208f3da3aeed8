import { defined } from "@kip/base";
import {
  encodeLine,
  groupsOf,
  hasShortLists,
  hasTiers,
  limits,
  policyVersion,
  type PolicyRule,
  type PolicyView,
  type TierView,
} from "@kip/network-view";
import type { AddressGroups } from "../policies/address-groups.ts";
import { isReadablePolicy } from "./is-readable.ts";

/** Maximum size of the groups of a policy. One change must have room for the policy, all its groups and some Services. */
export const maxGroupBytes = limits.changeBytes / 2;

/** A policy and its encoded line. The line may have megabytes, so it is encoded only once. */
export interface PolicyLine {
  readonly policy: PolicyView;
  readonly line: string;
}

/** Encodes a policy. */
export function policyLine(policy: PolicyView): PolicyLine {
  return { policy, line: encodeLine({ kind: "policy", policy }) };
}

/** Approximate size of the addresses of groups, bytes. */
export function groupBytesOf(
  names: ReadonlySet<string>,
  groups: Pick<AddressGroups, "sizeOf">,
): number {
  let bytes = 0;
  for (const name of names) bytes += groups.sizeOf(name).bytes;
  return bytes;
}

/** A direction of a pod's connections. */
export type Direction = "ingress" | "egress";

const directions: readonly Direction[] = ["ingress", "egress"];

/**
 * Reduces a policy to what a cell accepts, because an agent closes the connection if it rejects a line. A direction with too many or too long
 * rules is closed, so that nothing passes, and the other one is unchanged. If both together make the line too long, the longer one is closed
 * first. If the groups have too many addresses, each restricted direction is closed.
 *
 * @param groups contains the groups that the policy names
 * @param version the `policyVersion` that the cell's agent supports
 */
export function fittingPolicy(
  policy: PolicyView,
  groups: Pick<AddressGroups, "sizeOf">,
  version: number = policyVersion,
): PolicyLine {
  const known = version >= 2 || !hasTiers(policy) ? policy : withoutTiers(policy);
  if (groupBytesOf(groupsOf(known), groups) > maxGroupBytes) return policyLine(closed(known));
  const most = version >= 3 ? limits.rules : limits.rulesOfEarlierAgents;
  let fitting = known;
  for (const direction of directions)
    if (!isShort(known, direction, most)) fitting = closeDirection(fitting, direction);
  let encoded = policyLine(fitting);
  for (const direction of isLongLine(encoded) ? byLength(fitting) : [])
    if (isLongLine(encoded)) encoded = policyLine(closeDirection(encoded.policy, direction));
  return isReadablePolicy(encoded.line, encoded.policy) ? encoded : policyLine(closed(known));
}

/** Whether agents before version 3 of `policyVersion` accept all lists of a policy. */
export function fitsEarlierAgents(policy: PolicyView): boolean {
  return directions.every((direction) => isShort(policy, direction, limits.rulesOfEarlierAgents));
}

/** Whether {@link fittingPolicy} has closed a direction. */
export function isClosedIn(
  direction: Direction,
  { wanted, fitting }: { readonly wanted: PolicyView; readonly fitting: PolicyView },
): boolean {
  const left = listsOf(fitting, direction);
  return listsOf(wanted, direction).some((list, index) => list !== left[index]);
}

type RuleList = readonly PolicyRule[] | undefined;

/** Rules of a direction: of NetworkPolicies and of both tiers. */
function listsOf({ admin, baseline, ...own }: PolicyView, name: Direction): readonly RuleList[] {
  return [own[name], admin?.[name], baseline?.[name]];
}

function isShort(policy: PolicyView, direction: Direction, most: number): boolean {
  return listsOf(policy, direction).every((list = []) => hasShortLists(list, most));
}

function isLongLine({ line }: PolicyLine): boolean {
  return Buffer.byteLength(line) > limits.lineBytes;
}

/** The direction whose rules are longer comes first. */
function byLength(policy: PolicyView): readonly Direction[] {
  const length = (direction: Direction): number =>
    JSON.stringify(listsOf(policy, direction)).length;
  return length("egress") > length("ingress") ? directions.toReversed() : directions;
}

/** A copy of the policy that lets nothing pass in a direction. */
function closeDirection(policy: PolicyView, direction: Direction): PolicyView {
  const rest = (tier: TierView | undefined): TierView | undefined => {
    const { [direction]: _closed, ...others } = tier ?? {};
    return Object.keys(others).length > 0 ? others : undefined;
  };
  const tiers = { admin: rest(policy.admin), baseline: rest(policy.baseline) };
  return defined({ ingress: policy.ingress, egress: policy.egress, ...tiers, [direction]: [] });
}

/** A copy of the policy without tiers. Directions with tiers are closed. */
function withoutTiers({ ingress, egress, admin, baseline }: PolicyView): PolicyView {
  return defined({
    ingress: admin?.ingress || baseline?.ingress ? [] : ingress,
    egress: admin?.egress || baseline?.egress ? [] : egress,
  });
}

/** A copy of the policy in which each restricted direction is closed. */
function closed(policy: PolicyView): PolicyView {
  const { ingress, egress } = withoutTiers(policy);
  return defined({ ingress: ingress && [], egress: egress && [] });
}
