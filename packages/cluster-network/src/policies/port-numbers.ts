/**
 * How many numbers of one named port have rules, for one selector. Each number needs a rule and a group, and any user may write pods that
 * have many.
 */
export const maxNumbers = 256;

/**
 * The same for all named ports together in one list of a pod's rules, as far as other rules leave room in `limits.rules`. The budget of a
 * namespace, where each number counts, has room for two such lists.
 */
export const maxNumbersOfList = 2048;

/** The numbers of a named port that have rules. */
export interface PortNumbers {
  /** Rising. */
  readonly numbers: readonly number[];
  /** Whether pods have no others. */
  readonly areAll: boolean;
}

/** The same, ordered by weight. */
export interface RankedNumbers {
  /** The heaviest comes first. */
  readonly ranked: readonly number[];
  readonly areAll: boolean;
}

/** No pod has a number. */
export const noNumbers: PortNumbers = { numbers: [], areAll: true };
/** The same, ranked. */
export const noRankedNumbers: RankedNumbers = { ranked: [], areAll: true };

/**
 * The weight of each number of a pod, when there are more numbers than can have rules. A pod has the same weight in all, so one with very
 * many numbers does not displace those of ordinary pods. Weights are integers, so that sums do not depend on the order of pods.
 *
 * @param count how many numbers the pod has, 1 to 65,535
 */
export function weightOfEach(count: number): number {
  return Math.floor(65_536 / count);
}

/**
 * The heaviest numbers; of several with the same weight, the smaller ones. The result does not depend on the order in which pods came.
 *
 * @param weights of numbers
 */
export function weightiest(weights: ReadonlyMap<number, number>): RankedNumbers {
  // There may be 65,535 of them, and plain numbers are sorted faster than objects.
  const keys = new Float64Array(weights.size);
  let count = 0;
  for (const [number, weight] of weights) keys[count++] = weight * 65_536 + 65_535 - number;
  keys.sort();
  const last = Array.from(keys.slice(-maxNumbers), (key) => 65_535 - (key % 65_536));
  const ranked = last.reverse();
  return { ranked, areAll: weights.size <= maxNumbers };
}

/** The first ones of ranked numbers. */
export function firstNumbers({ ranked, areAll }: RankedNumbers, most: number): PortNumbers {
  const numbers = ranked.slice(0, most).sort((a, b) => a - b);
  return { numbers, areAll: areAll && ranked.length <= most };
}

/** Whether both have the same numbers, in any order: rules made from all of them are the same. */
export function areSameNumbers(a: RankedNumbers, b: RankedNumbers): boolean {
  const numbers = new Set(a.ranked);
  return (
    a.areAll === b.areAll &&
    a.ranked.length === b.ranked.length &&
    b.ranked.every((number) => numbers.has(number))
  );
}

/** Whether both have the same numbers in the same order: rules made from the first ones of them are the same, too. */
export function areSameRanks(a: RankedNumbers, b: RankedNumbers): boolean {
  return areSameNumbers(a, b) && a.ranked.every((number, i) => number === b.ranked[i]);
}

/**
 * How many numbers each of several named ports may have, if all together may have only so many (max-min fairness): ports with few numbers
 * keep all, and the others share the rest equally.
 *
 * @param counts how many numbers each port has
 * @param room how many all may have together
 */
export function fairShare(counts: readonly number[], room: number): number {
  let left = Math.max(0, room);
  let sharing = counts.length;
  for (const count of counts.toSorted((a, b) => a - b)) {
    if (count * sharing > left) return Math.floor(left / sharing);
    left -= count;
    sharing--;
  }
  return maxNumbers;
}
