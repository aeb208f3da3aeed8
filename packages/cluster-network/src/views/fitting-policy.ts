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

/** Of one change: it has the policy, all its groups and some Services. */
export const maxGroupBytes = limits.changeBytes / 2;

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

/** A direction of a pod's connections. */
export type Direction = "ingress" | "egress";

const directions: readonly Direction[] = ["ingress", "egress"];

/**
 * What a cell takes of a policy: a line that its agent refuses would end the connection. A direction with too many rules, or too long ones,
 * lets nothing pass, and the other one is as it was. If both together make too long a line, the longer one is closed first. If groups
 * have too many addresses, each restricted direction is closed.
 *
 * @param groups those that the policy names are in it
 * @param version what the cell's agent knows, see `policyVersion`
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

/** Whether agents before version 3 of `policyVersion` take all lists of a policy. */
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

/** Nothing passes in a direction. */
function closeDirection(policy: PolicyView, direction: Direction): PolicyView {
  const rest = (tier: TierView | undefined): TierView | undefined => {
    const { [direction]: _closed, ...others } = tier ?? {};
    return Object.keys(others).length > 0 ? others : undefined;
  };
  const tiers = { admin: rest(policy.admin), baseline: rest(policy.baseline) };
  return defined({ ingress: policy.ingress, egress: policy.egress, ...tiers, [direction]: [] });
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
