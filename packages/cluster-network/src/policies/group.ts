import type { GroupSelector } from "./group-selector.ts";
import { BitSet } from "./bit-set.ts";
import { podsPerStep } from "./fill-queue.ts";
import { Owners } from "./owners.ts";
import type { PodFacts } from "./pod-facts.ts";
import { ownNumbers } from "./pod-ports.ts";
import { termsOf } from "./policy-cost.ts";
import {
  areSameNumbers,
  areSameRanks,
  maxNumbers,
  noRankedNumbers,
  weightiest,
  weightOfEach,
  type RankedNumbers,
} from "./port-numbers.ts";

/** The difference between two states of a group. */
export interface GroupChange {
  readonly add: readonly string[];
  readonly remove: readonly string[];
  /** Whether its addresses have changed. For a group of port numbers: whether the set of numbers with rules has changed. */
  readonly isChanged: boolean;
  /** Whether the order of its port numbers has changed. This matters if only the first numbers have rules. */
  readonly isReranked: boolean;
  /** By how many bytes its addresses have grown. Negative if they have shrunk. */
  readonly bytes: number;
}

/** The size of a group. */
export interface GroupSize {
  /** Number of addresses, counted for each pod. In a group of port numbers, counted for each number of the pod that can have a rule. */
  readonly addresses: number;
  /** The size of these addresses in the lines that are sent to cells. */
  readonly bytes: number;
  /** How many port numbers have rules. 0 for a group of addresses. */
  readonly numbers: number;
}

/** The pods or nodes that a selector matches, and their addresses. A group with `numbersOf` has port numbers instead of addresses. */
export interface Group {
  readonly selector: GroupSelector;
  /** Extra work of a comparison with a pod because of a long selector: 1 for each 64 terms of the namespace selector. */
  readonly cost: number;
  /** The members, as the numbers that pods and nodes have in kip. Does not contain pods and nodes without an address. */
  members: BitSet;
  /** Whether it was compared with all pods, and its members were not reset since. */
  areMembersKnown: boolean;
  addresses: number;
  bytes: number;
  /** As of the last {@link takeChange}. */
  bytesBefore: number;
  /**
   * How many members have each address. It is two while a pod has ended and another one already has its address. In a group of port
   * numbers: how many members have each list of numbers. Undefined until the members are known, and for a group of addresses that no
   * cell uses, because only the size of such a group is kept.
   */
  counts: Map<string, number> | undefined;
  /** Addresses that were added or removed since the last {@link takeChange}. The value says whether the address was in the group then. */
  readonly touched: Map<string, boolean>;
  /** The port numbers that have rules, as of the last {@link rank}. */
  chosen: RankedNumbers;
  /** Whether `chosen` is up to date. */
  isRanked: boolean;
  /** Whether the set of chosen numbers has changed since the last {@link takeChange}. Also true if it changed back, because rules may have been made in between. */
  wasChanged: boolean;
  /** Whether the order of the chosen numbers has changed since then. */
  isReranked: boolean;
  /** How many rules need its addresses. */
  uses: number;
  /** How many policies need its size alone. */
  holds: number;
  /** Namespaces whose policies name it. */
  readonly owners: Owners;
  /** The position in the log of {@link PodScope} up to which changes are included. Undefined until it was compared with all pods. */
  seen: number | undefined;
  /** The value of {@link AddressGroups.fills} when it was last up to date. 0 if it never was. */
  filledIn: number;
}

/** What one pod or node contributes to a group. */
export interface Share {
  /** Its addresses. In a group of port numbers: one text with all its numbers. */
  readonly values: readonly string[];
  readonly addresses: number;
  readonly bytes: number;
}

/** How many port numbers can be ranked in the time of one comparison of a group with a pod. */
const numbersPerPod = 32;

/** The contribution of a pod or node that is not in the group. */
export const noShare: Share = { values: [], addresses: 0, bytes: 0 };

/** A group without members. */
export function newGroup(selector: GroupSelector): Group {
  return {
    selector,
    cost: Math.floor(termsOf(selector.namespaceSelector) / 64),
    members: new BitSet(),
    areMembersKnown: selector.nodes !== undefined,
    addresses: 0,
    bytes: 0,
    bytesBefore: 0,
    // The cost of a policy depends on the port numbers, so they are counted even if no cell uses the group.
    counts: selector.numbersOf ? new Map() : undefined,
    touched: new Map(),
    chosen: noRankedNumbers,
    isRanked: true,
    wasChanged: false,
    isReranked: false,
    uses: 0,
    holds: 0,
    owners: new Owners(),
    seen: undefined,
    filledIn: 0,
  };
}

/** Removes all members of a group, which must then be compared with all pods again. */
export function resetMembers(group: Group): void {
  group.members = new BitSet();
  group.areMembersKnown = false;
  group.seen = undefined;
}

/** Whether a group must be compared with all pods. */
export function needsRefill({ seen }: Group): boolean {
  return seen === undefined;
}

/** Replaces the members of a group by those of another group with the same selector, and records the difference as a change. */
export function takeMembers(group: Group, other: Group): void {
  const before = group.counts;
  for (const address of before?.keys() ?? [])
    if (other.counts?.has(address) !== true) noteTouched(group, address, true);
  for (const address of other.counts?.keys() ?? [])
    if (before?.has(address) !== true) noteTouched(group, address, false);
  group.members = other.members;
  group.areMembersKnown = true;
  group.addresses = other.addresses;
  group.bytes = other.bytes;
  group.counts = storesValues(group) ? other.counts : undefined;
  group.isRanked = group.selector.numbersOf === undefined;
}

/** Whether the addresses or port numbers of a group are stored, and not only its size. */
export function storesValues({ uses, selector }: Group): boolean {
  return uses > 0 || selector.numbersOf !== undefined;
}

/** The change of a group since the last call. */
export function takeChange(group: Group): GroupChange {
  const add: string[] = [];
  const remove: string[] = [];
  for (const [address, wasIn] of group.touched) {
    const isIn = group.counts?.has(address) ?? false;
    if (isIn && !wasIn) add.push(address);
    if (wasIn && !isIn) remove.push(address);
  }
  const { isReranked } = group;
  const isChanged = group.selector.numbersOf ? group.wasChanged : add.length + remove.length > 0;
  const bytes = group.bytes - group.bytesBefore;
  group.touched.clear();
  group.wasChanged = false;
  group.isReranked = false;
  group.bytesBefore = group.bytes;
  return { add, remove, isChanged, isReranked, bytes };
}

/** The contribution of a pod to a group that it is in. */
export function shareOfPod({ selector: { numbersOf } }: Group, pod: PodFacts): Share {
  const plain = shareOfAddresses(pod.addresses);
  if (!numbersOf || pod.addresses.length === 0) return plain;
  const { numbers, text } = ownNumbers(pod, numbersOf);
  if (numbers.length === 0) return noShare;
  const count = Math.min(maxNumbers, numbers.length);
  return { values: [text], addresses: count * plain.addresses, bytes: count * plain.bytes };
}

/** The contribution of a pod or node with these addresses. */
export function shareOfAddresses(addresses: readonly string[]): Share {
  const bytes = addresses.reduce((sum, address) => sum + address.length + '"",'.length, 0);
  return { values: addresses, addresses: addresses.length, bytes };
}

/** Whether two contributions are the same. */
export function areSame(a: Share, b: Share): boolean {
  if (a.addresses !== b.addresses || a.bytes !== b.bytes || a.values.length !== b.values.length)
    return false;
  return a.values.every((value, i) => value === b.values[i]);
}

/**
 * Chooses the port numbers of a group that have rules, in steps.
 *
 * @param done the work already done in the current step, in comparisons with a pod
 * @returns the work done in the last step, in the same unit
 */
export function* rank(group: Group, done: number): Generator<undefined, number> {
  if (group.isRanked) return done;
  let work = done;
  const weights = new Map<number, number>();
  for (const [text, pods] of group.counts ?? []) {
    const numbers = text.split(",").map(Number);
    const weight = pods * weightOfEach(numbers.length);
    for (const number of numbers) weights.set(number, (weights.get(number) ?? 0) + weight);
    work += numbers.length / numbersPerPod;
    if (work < podsPerStep) continue;
    work = 0;
    yield;
  }
  const chosen = weightiest(weights);
  group.wasChanged ||= !areSameNumbers(group.chosen, chosen);
  group.isReranked ||= !areSameRanks(group.chosen, chosen);
  group.chosen = chosen;
  group.isRanked = true;
  return work + weights.size / numbersPerPod;
}

/** Adds 1 or -1 to the number of members that have an address or a list of port numbers. */
export function count(group: Group, address: string, change: 1 | -1): void {
  const { counts } = group;
  if (!counts) return;
  const before = counts.get(address) ?? 0;
  noteTouched(group, address, before > 0);
  if (before + change > 0) counts.set(address, before + change);
  else counts.delete(address);
}

/** Records whether an address was in the group at the last {@link takeChange}. Only the first call for each address has an effect. */
function noteTouched({ touched, selector }: Group, address: string, wasIn: boolean): void {
  if (!selector.numbersOf && !touched.has(address)) touched.set(address, wasIn);
}
