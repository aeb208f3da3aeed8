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

/** What has changed in a group. */
export interface GroupChange {
  readonly add: readonly string[];
  readonly remove: readonly string[];
  /** Whether its addresses have changed or, of a group of port numbers, the set of numbers that have rules. */
  readonly isChanged: boolean;
  /** Whether the order of its numbers has changed. That matters where only the first ones have rules. */
  readonly isReranked: boolean;
  /** By how many bytes its addresses have grown; negative if they have shrunk. */
  readonly bytes: number;
}

/** The size of a group. */
export interface GroupSize {
  /** Addresses, counted once for each pod. In a group of port numbers, once more for each number of the pod that can have a rule. */
  readonly addresses: number;
  /** What these addresses take in the lines that are sent to cells. */
  readonly bytes: number;
  /** How many numbers have rules; 0 unless it is a group of port numbers. */
  readonly numbers: number;
}

/** The pods or nodes that a selector matches, and their addresses. A group with `numbersOf` has port numbers instead of addresses. */
export interface Group {
  readonly selector: GroupSelector;
  /** How much more work a comparison with a pod is than with a short selector: one unit for each 64 terms of the namespace selector. */
  readonly cost: number;
  /** The members, by the numbers that pods and nodes have in kip. Those without an address are left out. */
  members: BitSet;
  /** Whether it has been compared with all pods, and the members are still known. */
  areMembersKnown: boolean;
  addresses: number;
  bytes: number;
  /** As of the last {@link takeChange}. */
  bytesBefore: number;
  /**
   * By address, how many members have it: two while a pod has ended and another one has its address already. In a group of port numbers,
   * by the list of numbers, how many members have exactly that list. Undefined for a group of addresses that no cell uses, of which only
   * the size is known, and until the members are known.
   */
  counts: Map<string, number> | undefined;
  /** Addresses that were added or removed since the last {@link takeChange}, and whether each was in the group then. */
  readonly touched: Map<string, boolean>;
  /** The port numbers that have rules, as of the last {@link rank}. */
  chosen: RankedNumbers;
  /** Whether `chosen` is up to date. */
  isRanked: boolean;
  /** Whether the set of chosen numbers has changed since the last {@link takeChange}, even if it has changed back: rules may have been made meanwhile. */
  wasChanged: boolean;
  /** The same for their order. */
  isReranked: boolean;
  /** How many rules need its addresses. */
  uses: number;
  /** How many policies need its size alone. */
  holds: number;
  /** Namespaces whose policies name it. */
  readonly owners: Owners;
  /** The position in {@link PodScope} up to which it knows changes of pods; undefined until it has been compared with all pods. */
  seen: number | undefined;
  /** The {@link AddressGroups.fill} in which it was last up to date; 0 for never. */
  filledIn: number;
}

/** What one pod or node contributes to a group. */
export interface Share {
  /** Its addresses; in a group of port numbers, one text with all its numbers. */
  readonly values: readonly string[];
  readonly addresses: number;
  readonly bytes: number;
}

/** Ranking this many port numbers takes as long as comparing a group with one pod. */
const numbersPerPod = 32;

/** What a pod or node contributes that is not in the group. */
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
    // The cost of a policy depends on them, so they are counted whether or not a cell uses the group.
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

/** Forgets the members of a group: it has to be compared with all pods again. */
export function resetMembers(group: Group): void {
  group.members = new BitSet();
  group.areMembersKnown = false;
  group.seen = undefined;
}

/** Whether a group has to be compared with all pods. */
export function needsRefill({ seen }: Group): boolean {
  return seen === undefined;
}

/** Replaces the members of a group by those of another one with the same selector, and notes the difference as a change. */
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

/** Whether the addresses or port numbers of a group are kept, not only its size. */
export function storesValues({ uses, selector }: Group): boolean {
  return uses > 0 || selector.numbersOf !== undefined;
}

/** What has changed of a group since the last call. */
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

/** What a pod contributes to a group that it is in. */
export function shareOfPod({ selector: { numbersOf } }: Group, pod: PodFacts): Share {
  const plain = shareOfAddresses(pod.addresses);
  if (!numbersOf || pod.addresses.length === 0) return plain;
  const { numbers, text } = ownNumbers(pod, numbersOf);
  if (numbers.length === 0) return noShare;
  const count = Math.min(maxNumbers, numbers.length);
  return { values: [text], addresses: count * plain.addresses, bytes: count * plain.bytes };
}

/** What a node contributes to a group that it is in. */
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
 * Finds which port numbers of a group have rules, in steps.
 *
 * @param done how much of the current step is used up already, in comparisons with a pod
 * @returns how much of the last step is used up, in the same unit
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

/** Counts one member more, or one less, for an address or a list of port numbers. */
export function count(group: Group, address: string, change: 1 | -1): void {
  const { counts } = group;
  if (!counts) return;
  const before = counts.get(address) ?? 0;
  noteTouched(group, address, before > 0);
  if (before + change > 0) counts.set(address, before + change);
  else counts.delete(address);
}

/** Remembers whether an address was in the group at the last {@link takeChange}; only the first call for an address counts. */
function noteTouched({ touched, selector }: Group, address: string, wasIn: boolean): void {
  if (!selector.numbersOf && !touched.has(address)) touched.set(address, wasIn);
}
