import { resetMembers, type Group } from "./group.ts";

/** So many changes are kept for a group that is behind, however few pods there are. */
const maxBehind = 64;

/** The pods of one namespace, or all pods, by their numbers; the groups that choose among them; and a log of changes for these groups. */
export class PodScope {
  readonly groups = new Map<string, Group>();
  /** Includes those of states that are over, until no group counts them. */
  readonly numbers = new Set<number>();
  /** The log: numbers of pods, in the order of their changes. The bitwise complement of a number says that its state is over. */
  #changes: number[] = [];
  /** The position of the first entry that is kept. Positions are never used again. */
  #first = 0;
  /** How many of `numbers` are of states that are over. */
  #outdatedCount = 0;

  /** The position after the last entry: a group whose `seen` is the same is up to date. */
  get end(): number {
    return this.#first + this.#changes.length;
  }

  /** The number at a position of the log. */
  at(position: number): number | undefined {
    const change = this.#changes[position - this.#first];
    return change !== undefined && change < 0 ? ~change : change;
  }

  /** Adds a change to the log. A number that is over is not noted again. */
  note(number: number, isOutdated: boolean): void {
    this.#changes.push(isOutdated ? ~number : number);
    if (isOutdated) this.#outdatedCount++;
  }

  /** Groups that are not up to date. */
  behind(): readonly (readonly [name: string, group: Group])[] {
    return [...this.groups].filter(([, { seen }]) => seen === undefined || seen < this.end);
  }

  /**
   * Forgets changes that all groups have seen. A group that is behind by more than twice as many changes as there are pods begins again
   * with all pods instead. Otherwise the log, and all states that pods have had, would grow for as long as one group is slow.
   *
   * @returns numbers of states that are over and that no group counts any longer
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
