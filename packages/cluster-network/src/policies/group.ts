import type { GroupSelector } from "./group-selector.ts";
import { NumberSet } from "./number-set.ts";
import { Owners } from "./owners.ts";
import type { PodFacts } from "./pod-facts.ts";
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
  readonly members: NumberSet;
  addresses: number;
  bytes: number;
  /** As of the last {@link takeChange}. */
  bytesBefore: number;
  /**
   * How many pods give it an address: two, while one has ended and the other has its address already. Or, how much
   * they count for a number. Undefined for a group that no cell uses: its members are counted only.
   */
  counts: Map<string, number> | undefined;
  /** Since the last {@link takeChange}: whether an address was in the group before. */
  readonly touched: Map<string, boolean>;
  /** Numbers that have rules; undefined since pods have changed. */
  chosen: RankedNumbers | undefined;
  /** As of the last {@link takeChange}. */
  chosenBefore: RankedNumbers;
  uses: number;
  holds: number;
  readonly owners: Owners;
  /** Up to which change of a pod it has what it should, see {@link PodScope}. */
  seen: number;
}

/** What one pod or node gives a group. */
export interface Share {
  /** Addresses, or numbers of ports. */
  readonly values: readonly string[];
  /** How much it counts for each of them. */
  readonly weight: number;
  readonly addresses: number;
  readonly bytes: number;
}

/** Of a pod or node that is not in a group. */
export const noShare: Share = { values: [], weight: 1, addresses: 0, bytes: 0 };

/** A group without members. */
export function newGroup(selector: GroupSelector): Group {
  return {
    selector,
    cost: Math.floor(termsOf(selector.namespaceSelector) / 64),
    members: new NumberSet(),
    addresses: 0,
    bytes: 0,
    bytesBefore: 0,
    // Rules are made from numbers, and each pod has few.
    counts: selector.numbersOf ? new Map() : undefined,
    touched: new Map(),
    chosen: noRankedNumbers,
    chosenBefore: noRankedNumbers,
    uses: 0,
    holds: 0,
    owners: new Owners(),
    seen: 0,
  };
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
  const isOther = group.selector.numbersOf
    ? !areSameNumbers(group.chosenBefore, chosenOf(group))
    : add.length + remove.length > 0;
  const isReranked = !areSameRanks(group.chosenBefore, chosenOf(group));
  const bytes = group.bytes - group.bytesBefore;
  group.touched.clear();
  group.chosenBefore = chosenOf(group);
  group.bytesBefore = group.bytes;
  return { add, remove, isOther, isReranked, bytes };
}

/** What a pod that is in a group gives it. */
export function ofPod({ selector: { numbersOf } }: Group, { addresses, ports }: PodFacts): Share {
  const plain = ofAddresses(addresses);
  if (!numbersOf || addresses.length === 0) return plain;
  const named = ports.filter((p) => p.name === numbersOf.name && p.protocol === numbersOf.protocol);
  const values = [...new Set(named.map(({ port }) => String(port)))];
  if (values.length === 0) return noShare;
  const count = Math.min(mostNumbers, values.length);
  const weight = weightOfEach(values.length);
  return { values, weight, addresses: count * plain.addresses, bytes: count * plain.bytes };
}

/** What a node that is in a group gives it. */
export function ofAddresses(addresses: readonly string[]): Share {
  const bytes = addresses.reduce((sum, address) => sum + address.length + '"",'.length, 0);
  return { values: addresses, weight: 1, addresses: addresses.length, bytes };
}

/** Whether a group has the same of both. */
export function areSame(a: Share, b: Share): boolean {
  if (a.addresses !== b.addresses || a.bytes !== b.bytes || a.values.length !== b.values.length)
    return false;
  return a.values.every((value, i) => value === b.values[i]);
}

/** Those numbers of a group of numbers that have rules. */
export function chosenOf(group: Group): RankedNumbers {
  return (group.chosen ??= weightiest(group.counts ?? new Map<string, number>()));
}

/** Notes that a pod or node gives a group an address or number, or no longer does. */
export function count({ counts, touched }: Group, address: string, change: number): void {
  if (!counts) return;
  const before = counts.get(address) ?? 0;
  if (!touched.has(address)) touched.set(address, before > 0);
  if (before + change > 0) counts.set(address, before + change);
  else counts.delete(address);
}
