/**
 * For one name of a port and one selector so many numbers have rules. Each takes a rule and a group, and any user may write pods with
 * many.
 */
export const mostNumbers = 256;

/**
 * All named ports in one list of a pod's rules have so many numbers with rules together, beside what other rules take of `limits.rules`: the
 * policies of a namespace, which pay for each number, have room for two such lists.
 */
export const mostNumbersOfList = 2048;

/** The numbers of a named port that have rules. */
export interface PortNumbers {
  /** Rising. */
  readonly numbers: readonly number[];
  /** Whether pods have no others. */
  readonly areAll: boolean;
}

/** The same, by how much they count. */
export interface RankedNumbers {
  /** What counts most comes first. */
  readonly ranked: readonly number[];
  readonly areAll: boolean;
}

/** No pod has a number. */
export const noNumbers: PortNumbers = { numbers: [], areAll: true };
/** The same, ranked. */
export const noRankedNumbers: RankedNumbers = { ranked: [], areAll: true };

/**
 * How much a pod counts for each of its numbers, if numbers are too many: one with very many of them does not take the place of
 * those of ordinary pods. Whole, so that the order in which pods are added changes nothing.
 *
 * @param count how many numbers the pod has, 1 to 65,535
 */
export function weightOfEach(count: number): number {
  return Math.floor(65_536 / count);
}

/**
 * The numbers that weigh most, the smaller ones first of those that weigh the same: it depends on the pods that there are alone, not
 * on the order in which they came.
 *
 * @param weights of numbers
 */
export function weightiest(weights: ReadonlyMap<number, number>): RankedNumbers {
  // There may be all 65,535: plain numbers are sorted faster than objects.
  const keys = new Float64Array(weights.size);
  let count = 0;
  for (const [number, weight] of weights) keys[count++] = weight * 65_536 + 65_535 - number;
  keys.sort();
  const last = Array.from(keys.slice(-mostNumbers), (key) => 65_535 - (key % 65_536));
  const ranked = last.reverse();
  return { ranked, areAll: weights.size <= mostNumbers };
}

/** The first ones of ranked numbers. */
export function firstNumbers({ ranked, areAll }: RankedNumbers, most: number): PortNumbers {
  const numbers = ranked.slice(0, most).sort((a, b) => a - b);
  return { numbers, areAll: areAll && ranked.length <= most };
}

/** Whether rules that are made from all of them are the same. */
export function areSameNumbers(a: RankedNumbers, b: RankedNumbers): boolean {
  const numbers = new Set(a.ranked);
  return (
    a.areAll === b.areAll &&
    a.ranked.length === b.ranked.length &&
    b.ranked.every((number) => numbers.has(number))
  );
}

/** Whether rules that are made from the first ones of them are the same, however many those are. */
export function areSameRanks(a: RankedNumbers, b: RankedNumbers): boolean {
  return areSameNumbers(a, b) && a.ranked.every((number, i) => number === b.ranked[i]);
}

/**
 * How many numbers each of several named ports may have if they share a room: those that have fewer keep all, and the others get the
 * same share of the rest.
 *
 * @param counts how many numbers each has
 * @param room for numbers of all
 */
export function fairShare(counts: readonly number[], room: number): number {
  let left = Math.max(0, room);
  let sharing = counts.length;
  for (const count of counts.toSorted((a, b) => a - b)) {
    if (count * sharing > left) return Math.floor(left / sharing);
    left -= count;
    sharing--;
  }
  return mostNumbers;
}
