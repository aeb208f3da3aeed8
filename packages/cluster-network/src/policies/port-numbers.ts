/**
 * For one name of a port and one selector so many numbers have rules. Each takes a rule and a group, a cell takes 4,096 rules in all, and
 * any user may write pods with many.
 */
export const mostNumbers = 256;

/** The numbers of a named port that have rules. */
export interface PortNumbers {
  /** Rising. */
  readonly numbers: readonly number[];
  /** Whether pods have no others. */
  readonly areAll: boolean;
}

/** No pod has a number. */
export const noNumbers: PortNumbers = { numbers: [], areAll: true };

/**
 * How much a pod counts for each of its numbers, if numbers are too many: one with very many of them does not take the place of
 * those of ordinary pods. Whole, so that what was added can be taken away.
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
export function weightiest(weights: ReadonlyMap<string, number>): PortNumbers {
  const areAll = weights.size <= mostNumbers;
  const all = [...weights].map(([number, weight]) => ({ number: Number(number), weight }));
  if (!areAll) all.sort((a, b) => b.weight - a.weight || a.number - b.number);
  const chosen = all.slice(0, mostNumbers).map(({ number }) => number);
  return { numbers: chosen.sort((a, b) => a - b), areAll };
}

/** Whether rules that are made from them are the same. */
export function areSameNumbers(a: PortNumbers, b: PortNumbers): boolean {
  return (
    a.areAll === b.areAll &&
    a.numbers.length === b.numbers.length &&
    a.numbers.every((number, i) => number === b.numbers[i])
  );
}
