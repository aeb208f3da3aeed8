/** Work on one group, in steps. */
interface Work {
  readonly steps: Iterator<undefined>;
  /** Namespaces whose pods wait for it. */
  readonly wantedBy: Set<string>;
}

/**
 * Groups that are not filled, or are behind. Namespaces take turns, a step each, so what pods of one wait for is done at the same speed however many
 * groups those of another one name. The groups of a namespace are filled one after the other; one that several want makes a step on the
 * turn of each.
 */
export class FillQueue {
  readonly #groups = new Map<string, Work>();
  /** The next turn is that of the first one. */
  readonly #turns = new Map<string, Set<string>>();

  get size(): number {
    return this.#groups.size;
  }

  has(group: string): boolean {
    return this.#groups.has(group);
  }

  /** Adds a group; it comes after all that a namespace wants until one wants it, too. */
  add(group: string, steps: Iterator<undefined>): void {
    this.#groups.set(group, { steps, wantedBy: new Set() });
  }

  /** Notes that pods of a namespace wait for a group. */
  want(group: string, namespace: string): void {
    const work = this.#groups.get(group);
    if (!work || work.wantedBy.has(namespace)) return;
    work.wantedBy.add(namespace);
    this.#turns.set(namespace, (this.#turns.get(namespace) ?? new Set()).add(group));
  }

  /** Whether pods of a namespace wait for any group. */
  isWantedBy(namespace: string): boolean {
    return this.#turns.has(namespace);
  }

  /** Forgets a group, if it is there. */
  delete(group: string): void {
    for (const namespace of this.#groups.get(group)?.wantedBy ?? []) {
      const groups = this.#turns.get(namespace);
      groups?.delete(group);
      if (groups?.size === 0) this.#turns.delete(namespace);
    }
    this.#groups.delete(group);
  }

  /** Makes one step of the work; a group is forgotten with its last one. */
  step(): void {
    const group = this.#next();
    if (group !== undefined && this.#groups.get(group)?.steps.next().done === true)
      this.delete(group);
  }

  #next(): string | undefined {
    const [turn] = this.#turns;
    if (!turn) return this.#groups.keys().next().value;
    const [namespace, groups] = turn;
    this.#turns.delete(namespace);
    this.#turns.set(namespace, groups);
    return groups.values().next().value;
  }
}
