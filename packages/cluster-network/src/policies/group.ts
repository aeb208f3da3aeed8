import type { GroupSelector } from "./group-selector.ts";
import { NumberSet } from "./number-set.ts";
import { podsPerStep } from "./fill-queue.ts";
import { Owners } from "./owners.ts";
import type { PodFacts } from "./pod-facts.ts";
import { ownNumbers } from "./pod-ports.ts";
import { termsOf } from "./policy-cost.ts";
import {
  areSameNumbers,
  areSameRanks,
  mostNumbers,
  noRankedNumbers,
  weightiest,
  weightOfEach,
  type RankedNumbers,
} from "./port-numbers.ts";

/** Addresses that a group has got and lost. */
export interface GroupChange {
  readonly add: readonly string[];
  readonly remove: readonly string[];
  /** Whether it has other addresses, or others of its numbers have rules. */
  readonly isOther: boolean;
  /** Whether its numbers rank otherwise: rules may be made from the first ones alone. */
  readonly isReranked: boolean;
  /** How many bytes all of them take more than before, or less. */
  readonly bytes: number;
}

/** How much a group has. */
export interface GroupSize {
  /** Addresses of its pods, once for each pod; of a group of numbers, once for each number of each pod that can have a rule. */
  readonly addresses: number;
  /** Of those addresses, as lines have them. */
  readonly bytes: number;
  /** How many numbers of a group of numbers have rules; 0 for others. */
  readonly numbers: number;
}

/** Pods, or nodes, that a selector chooses, and what they give the group. */
export interface Group {
  readonly selector: GroupSelector;
  /** What its terms for labels of namespaces add to what a comparison with a pod counts: one for each 64. */
  readonly cost: number;
  /** Numbers of the pods, or nodes, that give it something. */
  members: NumberSet;
  /** Whether it has looked at all pods, and still knows which of them are its members. */
  areMembersKnown: boolean;
  addresses: number;
  bytes: number;
  /** As of the last {@link takeChange}. */
  bytesBefore: number;
  /**
   * How many pods give it an address: two, while one has ended and the other has its address already. Of a group of numbers,
   * how many pods have the same numbers: few have others, however many they are. Undefined for another group that no cell uses, whose
   * members are counted only, and for one whose members were not known since one does.
   */
  counts: Map<string, number> | undefined;
  /** Since the last {@link takeChange}: whether an address was in the group before. */
  readonly touched: Map<string, boolean>;
  /** Numbers that have rules, as of the last {@link rank}. */
  chosen: RankedNumbers;
  /** Whether no pod has changed since then. */
  isRanked: boolean;
  /** Since the last {@link takeChange}: whether others had rules at any time, as rules may be made in between. */
  hadOthers: boolean;
  /** Whether they ranked otherwise. */
  isReranked: boolean;
  uses: number;
  holds: number;
  readonly owners: Owners;
  /** Up to which change of a pod it has what it should, see {@link PodScope}; undefined before it has looked at all pods. */
  seen: number | undefined;
  /** In which {@link AddressGroups.fill} it had seen all changes last; 0 if it never had. */
  filledIn: number;
}

/** What one pod or node gives a group. */
export interface Share {
  /** Addresses, or the numbers of a port in one text. */
  readonly values: readonly string[];
  readonly addresses: number;
  readonly bytes: number;
}

/** To rank so many numbers takes as long as to compare a group with a pod. */
const numbersPerPod = 32;

/** Of a pod or node that is not in a group. */
export const noShare: Share = { values: [], addresses: 0, bytes: 0 };

/** A group without members. */
export function newGroup(selector: GroupSelector): Group {
  return {
    selector,
    cost: Math.floor(termsOf(selector.namespaceSelector) / 64),
    members: new NumberSet(),
    areMembersKnown: selector.nodes !== undefined,
    addresses: 0,
    bytes: 0,
    bytesBefore: 0,
    // What a policy takes depends on how many numbers there are.
    counts: selector.numbersOf ? new Map() : undefined,
    touched: new Map(),
    chosen: noRankedNumbers,
    isRanked: true,
    hadOthers: false,
    isReranked: false,
    uses: 0,
    holds: 0,
    owners: new Owners(),
    seen: undefined,
    filledIn: 0,
  };
}

/** Forgets which pods give a group what it has: it has to look at all of them. */
export function loseMembers(group: Group): void {
  group.members = new NumberSet();
  group.areMembersKnown = false;
  group.seen = undefined;
}

/** Whether a group has to look at all pods. */
export function isLost({ seen }: Group): boolean {
  return seen === undefined;
}

/** Gives a group what another one of its selector has. What a cell has of it changes by the difference. */
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

/** Whether addresses or numbers of a group are stored. */
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
  const isOther = group.selector.numbersOf ? group.hadOthers : add.length + remove.length > 0;
  const bytes = group.bytes - group.bytesBefore;
  group.touched.clear();
  group.hadOthers = false;
  group.isReranked = false;
  group.bytesBefore = group.bytes;
  return { add, remove, isOther, isReranked, bytes };
}

/** What a pod that is in a group gives it. */
export function ofPod({ selector: { numbersOf } }: Group, pod: PodFacts): Share {
  const plain = ofAddresses(pod.addresses);
  if (!numbersOf || pod.addresses.length === 0) return plain;
  const { numbers, text } = ownNumbers(pod, numbersOf);
  if (numbers.length === 0) return noShare;
  const count = Math.min(mostNumbers, numbers.length);
  return { values: [text], addresses: count * plain.addresses, bytes: count * plain.bytes };
}

/** What a node that is in a group gives it. */
export function ofAddresses(addresses: readonly string[]): Share {
  const bytes = addresses.reduce((sum, address) => sum + address.length + '"",'.length, 0);
  return { values: addresses, addresses: addresses.length, bytes };
}

/** Whether a group has the same of both. */
export function areSame(a: Share, b: Share): boolean {
  if (a.addresses !== b.addresses || a.bytes !== b.bytes || a.values.length !== b.values.length)
    return false;
  return a.values.every((value, i) => value === b.values[i]);
}

/**
 * Finds which numbers of a group of numbers have rules, in steps.
 *
 * @param done with how many pods the step has compared groups before
 * @returns with how many it could have compared them in the last step
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
  group.hadOthers ||= !areSameNumbers(group.chosen, chosen);
  group.isReranked ||= !areSameRanks(group.chosen, chosen);
  group.chosen = chosen;
  group.isRanked = true;
  return work + weights.size / numbersPerPod;
}

/** Notes that a pod or node gives a group an address or numbers, or no longer does. */
export function count(group: Group, address: string, change: 1 | -1): void {
  const { counts } = group;
  if (!counts) return;
  const before = counts.get(address) ?? 0;
  noteTouched(group, address, before > 0);
  if (before + change > 0) counts.set(address, before + change);
  else counts.delete(address);
}

/** Notes whether a group had an address before, once for each {@link takeChange}. */
function noteTouched({ touched, selector }: Group, address: string, wasIn: boolean): void {
  if (!selector.numbersOf && !touched.has(address)) touched.set(address, wasIn);
}
