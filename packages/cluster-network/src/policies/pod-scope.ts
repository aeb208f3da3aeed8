import { loseMembers, type Group } from "./group.ts";

/** A group may have to look at so many changes in any case. */
const mostBehind = 64;

/** Pods of one namespace, or of all, by their numbers, and the groups that choose among them. */
export class PodScope {
  readonly groups = new Map<string, Group>();
  /** Those that are over stay until no group has them. */
  readonly numbers = new Set<number>();
  /** What groups have to look at, in the order of the changes; the complement of a number says that its pod is over. */
  #changes: number[] = [];
  /** Position of the first one that is kept: positions only rise. */
  #first = 0;
  /** How many of the numbers are over. */
  #over = 0;

  /** Position after the last change: a group that has seen so many has seen all. */
  get end(): number {
    return this.#first + this.#changes.length;
  }

  /** The number of the pod that has changed at a position. */
  at(position: number): number | undefined {
    const change = this.#changes[position - this.#first];
    return change !== undefined && change < 0 ? ~change : change;
  }

  /** Notes that groups have to look at a pod; nothing more is noted of one that is over. */
  note(number: number, isOver: boolean): void {
    this.#changes.push(isOver ? ~number : number);
    if (isOver) this.#over++;
  }

  /** Groups that have not seen all changes. */
  behind(): readonly (readonly [name: string, group: Group])[] {
    return [...this.groups].filter(([, { seen }]) => seen === undefined || seen < this.end);
  }

  /**
   * Forgets changes that all groups have seen. A group that is behind by more of them than there are pods, twice over, has to look at all
   * pods as they are instead: otherwise changes, and all states that pods have had, would be kept for the slowest group, and that would
   * have the more to look at the slower it is.
   *
   * @returns numbers that are over, and that no group has any longer
   */
  trim(): readonly number[] {
    if (this.#changes.length === 0) return [];
    const { end } = this;
    const most = 2 * (this.numbers.size - this.#over) + mostBehind;
    let first = end;
    for (const group of this.groups.values()) {
      if (group.seen === undefined) continue;
      if (end - group.seen > most) loseMembers(group);
      else first = Math.min(first, group.seen);
    }
    const forgotten = this.#changes.splice(0, first - this.#first);
    this.#first = first;
    const over = forgotten.flatMap((change) => (change < 0 ? ~change : []));
    for (const number of over) this.numbers.delete(number);
    this.#over -= over.length;
    return over;
  }
}
