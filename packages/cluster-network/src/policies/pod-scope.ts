import type { Group } from "./group.ts";

/** Pods of one namespace, or of all, by their numbers, and the groups that choose among them. */
export class PodScope {
  readonly groups = new Map<string, Group>();
  /** Those that are over stay until no group has them. */
  readonly numbers = new Set<number>();
  /** What groups have to look at, in the order of the changes; the complement of a number says that its pod is over. */
  #changes: number[] = [];
  /** Position of the first one that is kept: positions only rise. */
  #first = 0;

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
  }

  /** Groups that have not seen all changes. */
  behind(): readonly (readonly [name: string, group: Group])[] {
    return [...this.groups].filter(([, { seen }]) => seen < this.end);
  }

  /**
   * Forgets changes that all groups have seen. If some are so slow that there are more changes than pods, the last change of each is
   * kept alone, and those groups look at all of them: to look at a pod again changes nothing.
   *
   * @returns numbers that are over, and that no group has any longer
   */
  trim(): readonly number[] {
    if (this.#changes.length === 0) return [];
    let seen = this.end;
    for (const group of this.groups.values()) seen = Math.min(seen, group.seen);
    const forgotten = this.#changes.splice(0, seen - this.#first);
    this.#first = seen;
    if (this.#changes.length > 2 * this.numbers.size) this.#unite();
    const over = forgotten.flatMap((change) => (change < 0 ? ~change : []));
    for (const number of over) this.numbers.delete(number);
    return over;
  }

  #unite(): void {
    const { end } = this;
    const slow = this.behind();
    const last = new Set(this.#changes.toReversed());
    this.#changes = [...last].filter((change) => change < 0 || !last.has(~change)).reverse();
    this.#first = end;
    for (const group of this.groups.values()) group.seen = this.end;
    for (const [, group] of slow) group.seen = end;
  }
}
