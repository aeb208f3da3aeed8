import { resetMembers, type Group } from "./group.ts";

/** Minimum number of changes that are kept for a slow group, even if there are few pods. */
const maxBehind = 64;

/** The pods of one namespace or of the cluster, as numbers. Also the groups that select from them, and a log of changes for these groups. */
export class PodScope {
  readonly groups = new Map<string, Group>();
  /** Includes numbers of outdated states, until no group counts them. */
  readonly numbers = new Set<number>();
  /** The log: numbers of pods, in the order of their changes. The bitwise complement of a number means that its state became outdated. */
  #changes: number[] = [];
  /** The position of the first entry in the log. Positions are never reused. */
  #first = 0;
  /** How many of `numbers` are of outdated states. */
  #outdatedCount = 0;

  /** The position after the last entry. A group whose `seen` has this value is up to date. */
  get end(): number {
    return this.#first + this.#changes.length;
  }

  /** The number at a position of the log. */
  at(position: number): number | undefined {
    const change = this.#changes[position - this.#first];
    return change !== undefined && change < 0 ? ~change : change;
  }

  /** Adds a change to the log. No more changes follow for a number once it is outdated. */
  note(number: number, isOutdated: boolean): void {
    this.#changes.push(isOutdated ? ~number : number);
    if (isOutdated) this.#outdatedCount++;
  }

  /** Groups that are not up to date. */
  behind(): readonly (readonly [name: string, group: Group])[] {
    return [...this.groups].filter(([, { seen }]) => seen === undefined || seen < this.end);
  }

  /**
   * Removes changes that all groups have seen. If a group lags by more than about twice as many changes as there are pods, it is reset and
   * compared with all pods instead. Otherwise one slow group would let the log and the outdated states grow without limit.
   *
   * @returns numbers of outdated states that no group counts any longer
   */
  trim(): readonly number[] {
    if (this.#changes.length === 0) return [];
    const { end } = this;
    const most = 2 * (this.numbers.size - this.#outdatedCount) + maxBehind;
    let first = end;
    for (const group of this.groups.values()) {
      if (group.seen === undefined) continue;
      if (end - group.seen > most) resetMembers(group);
      else first = Math.min(first, group.seen);
    }
    const forgotten = this.#changes.splice(0, first - this.#first);
    this.#first = first;
    const over = forgotten.flatMap((change) => (change < 0 ? ~change : []));
    for (const number of over) this.numbers.delete(number);
    this.#outdatedCount -= over.length;
    return over;
  }
}
