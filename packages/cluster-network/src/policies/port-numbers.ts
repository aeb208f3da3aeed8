/**
 * Maximum number of port numbers with rules, for one named port and one selector. Each number needs a rule and a group, and any user may
 * create pods with many.
 */
export const maxNumbers = 256;

/**
 * Maximum total for all named ports in one list of a pod's rules. It is less if the other rules use up most of `limits.rules`. Each number
 * counts in the budget of the namespace, which has room for two such lists.
 */
export const maxNumbersOfList = 2048;

/** The numbers of a named port that have rules. */
export interface PortNumbers {
  /** In ascending order. */
  readonly numbers: readonly number[];
  /** Whether these are all numbers that pods have. */
  readonly areAll: boolean;
}

/** The numbers of a named port that have rules, ordered by weight. */
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
 * The weight of each number of a pod, if there are more numbers than can have rules. All pods have the same total weight, so a pod with very
 * many numbers does not displace those of ordinary pods. Weights are integers, so that sums do not depend on the order of pods.
 *
 * @param count how many numbers the pod has, 1 to 65,535
 */
export function weightOfEach(count: number): number {
  return Math.floor(65_536 / count);
}

/**
 * The numbers with the largest weights. Smaller numbers win ties. The result does not depend on the order in which pods arrived.
 *
 * @param weights the weight of each number
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

/** The first `most` of ranked numbers. */
export function firstNumbers({ ranked, areAll }: RankedNumbers, most: number): PortNumbers {
  const numbers = ranked.slice(0, most).sort((a, b) => a - b);
  return { numbers, areAll: areAll && ranked.length <= most };
}

/** Whether both have the same numbers, in any order. Then rules for all of the numbers are the same. */
export function areSameNumbers(a: RankedNumbers, b: RankedNumbers): boolean {
  const numbers = new Set(a.ranked);
  return (
    a.areAll === b.areAll &&
    a.ranked.length === b.ranked.length &&
    b.ranked.every((number) => numbers.has(number))
  );
}

/** Whether both have the same numbers in the same order. Then rules for the first few numbers are also the same. */
export function areSameRanks(a: RankedNumbers, b: RankedNumbers): boolean {
  return areSameNumbers(a, b) && a.ranked.every((number, i) => number === b.ranked[i]);
}

/**
 * The maximum number of port numbers for each named port, if their total is limited (max-min fairness). Ports with few numbers keep all of
 * them, and the others share the rest equally.
 *
 * @param counts how many numbers each port has
 * @param room the limit of the total
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
