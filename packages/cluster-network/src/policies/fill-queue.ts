import type { Owners } from "./owners.ts";

/** Groups that the same namespaces wait for. */
interface Batch {
  readonly key: string | bigint;
  readonly namespaces: readonly string[];
  readonly groups: Set<string>;
}

/** A step compares at most about so many pods. */
export const podsPerStep = 64;

/** Steps of the work on one group; what is returned at the end is with how many pods the last one has compared the group. */
export type Steps = Iterator<undefined, number>;

/** Work on one group, in steps. */
interface Work {
  readonly steps: Steps;
  readonly batches: Set<Batch>;
}

/**
 * Groups that are not filled, or are behind. Namespaces take turns, a step each, so what pods of one wait for is done at the same speed however many
 * groups those of another one name. The groups of a namespace are filled one after the other, and those that look at few pods in one step; one that
 * several want makes a step on the turn of each. Groups with the same owners are noted once for all of these: thousands of namespaces may have hundreds of them in common.
 */
export class FillQueue {
  readonly #groups = new Map<string, Work>();
  /** By the key of the owners, or the name of one namespace. */
  readonly #batches = new Map<string | bigint, Batch>();
  /** The next turn is that of the first one. */
  readonly #turns = new Map<string, Set<Batch>>();

  get size(): number {
    return this.#groups.size;
  }

  has(group: string): boolean {
    return this.#groups.has(group);
  }

  /** Adds a group; it comes after all that a namespace wants until one wants it, too. */
  add(group: string, steps: Steps): void {
    this.#groups.set(group, { steps, batches: new Set() });
  }

  /** Notes that pods of a namespace wait for a group. */
  want(group: string, namespace: string): void {
    this.#join(group, namespace, () => [namespace]);
  }

  /** Notes that pods of all owners of a group wait for it. */
  wantForOwners(group: string, owners: Pick<Owners, "key" | "names">): void {
    this.#join(group, owners.key, () => owners.names());
  }

  /** Whether pods of a namespace wait for any group. */
  isWantedBy(namespace: string): boolean {
    return this.#turns.has(namespace);
  }

  /** Forgets a group, if it is there. */
  delete(group: string): void {
    for (const batch of this.#groups.get(group)?.batches ?? []) {
      batch.groups.delete(group);
      if (batch.groups.size === 0) this.#end(batch);
    }
    this.#groups.delete(group);
  }

  /** Makes one step of the work; a group is forgotten with its last one. */
  step(): void {
    const turn = this.#nextTurn();
    for (let pods = 0; pods < podsPerStep;) {
      const group = this.#next(turn);
      const result = group === undefined ? undefined : this.#groups.get(group)?.steps.next();
      if (group === undefined || result?.done !== true) return;
      this.delete(group);
      pods += 1 + result.value; // what it takes to begin and end counts, too
    }
  }

  #join(group: string, key: string | bigint, namespaces: () => Iterable<string>): void {
    const work = this.#groups.get(group);
    if (!work) return;
    const batch = this.#batches.get(key) ?? this.#begin(key, [...namespaces()]);
    batch.groups.add(group);
    work.batches.add(batch);
  }

  #begin(key: string | bigint, namespaces: readonly string[]): Batch {
    const batch: Batch = { key, namespaces, groups: new Set() };
    this.#batches.set(key, batch);
    for (const namespace of namespaces)
      this.#turns.set(namespace, (this.#turns.get(namespace) ?? new Set()).add(batch));
    return batch;
  }

  #end(batch: Batch): void {
    this.#batches.delete(batch.key);
    for (const namespace of batch.namespaces) {
      const batches = this.#turns.get(namespace);
      batches?.delete(batch);
      if (batches?.size === 0) this.#turns.delete(namespace);
    }
  }

  /** The namespace whose turn it is; undefined if none waits. */
  #nextTurn(): string | undefined {
    const [turn] = this.#turns;
    if (!turn) return undefined;
    const [namespace, batches] = turn;
    this.#turns.delete(namespace);
    this.#turns.set(namespace, batches);
    return namespace;
  }

  /** The next group of a namespace; undefined for one that none waits for. */
  #next(namespace: string | undefined): string | undefined {
    if (namespace === undefined) return this.#groups.keys().next().value;
    const [batch] = this.#turns.get(namespace) ?? [];
    return batch?.groups.values().next().value;
  }
}
