import type { Owners } from "./owners.ts";

/** Groups that the same set of namespaces waits for. */
interface Batch {
  readonly key: string | bigint;
  readonly namespaces: readonly string[];
  readonly groups: Set<string>;
}

/** The batches that a namespace waits for. */
interface Turn {
  /** A list, not a set, as thousands of namespaces may wait for hundreds of batches each. Batches without groups are removed later. */
  batches: Batch[];
  /** How many of the batches have groups. */
  waiting: number;
  /** The batch whose groups are being filled. */
  current?: Batch | undefined;
  /** How many groups of the current batch are filled before the next batch has its turn. */
  left: number;
}

/** How many empty batches a namespace may have before they are removed. */
const maxIdle = 16;

/** The approximate work of one step, in comparisons of a group with a pod. */
export const podsPerStep = 64;

/** The work of adding or removing a waiting namespace, in comparisons. */
const workOfNamespace = 1 / 16;

/** The number of owners of one group that can be recorded in one step. */
const fewOwners = podsPerStep / workOfNamespace;

/** The members of {@link Owners} that the queue uses. */
type GroupOwners = Pick<Owners, "key" | "size" | "names">;

/** The work on one group, in steps. Returns the number of comparisons in the last step. */
export type Steps = Iterator<undefined, number>;

/** A group in the queue. */
interface Work {
  readonly steps: Steps;
  readonly batches: Set<Batch>;
}

/**
 * A fair queue of groups that must be compared with pods.
 *
 * - Namespaces take turns of one step each. If one namespace names many groups, this does not slow down the others. A group that several
 *   namespaces wait for makes progress in the turn of each of them.
 * - In its turn, a namespace has its groups filled one after the other. Several small groups fit into one step.
 * - Groups with the same owners are in one batch, and each owner only has a reference to the batch. Thousands of namespaces may have
 *   hundreds of groups in common. The batches of a namespace also take turns. A turn of a batch lasts for as many groups as the batch had
 *   at its start, because groups may become outdated again before all groups of the batch are filled.
 * - Recording the owners of a group is part of the work of a step. If a group has very many owners, its first step is done before. Usually
 *   this is also its last step, and the owners need not be recorded.
 */
export class FillQueue {
  readonly #groups = new Map<string, Work>();
  /** By {@link Owners.key}, or by the name of the namespace if only one waits. */
  readonly #batches = new Map<string | bigint, Batch>();
  /** Groups whose owners wait for them but are not recorded yet. The next steps do that. */
  readonly #unrecordedOwners = new Map<string, GroupOwners>();
  /** By namespace. The first one is next. */
  readonly #turns = new Map<string, Turn>();

  get size(): number {
    return this.#groups.size;
  }

  has(group: string): boolean {
    return this.#groups.has(group);
  }

  /** Adds a group. Groups that no namespace waits for come last. */
  add(group: string, steps: Steps): void {
    this.#groups.set(group, { steps, batches: new Set() });
  }

  /** Notes that pods of a namespace wait for a group. */
  addWaiter(group: string, namespace: string): void {
    this.#join(group, namespace, [namespace]);
  }

  /** Notes that pods of all owners of a group wait for it. */
  addOwnersAsWaiters(group: string, owners: GroupOwners): void {
    if (this.#groups.has(group)) this.#unrecordedOwners.set(group, owners);
  }

  /** Whether pods of a namespace wait for any group. Also true while some owners are not recorded yet, because it may be one of them. */
  isAwaitedBy(namespace: string): boolean {
    return this.#unrecordedOwners.size > 0 || this.#turns.has(namespace);
  }

  /** Removes a group, if it is in the queue. @returns how many namespaces were recorded only for this group */
  delete(group: string): number {
    let namespaces = 0;
    for (const batch of this.#groups.get(group)?.batches ?? []) {
      batch.groups.delete(group);
      if (batch.groups.size > 0) continue;
      this.#end(batch);
      namespaces += batch.namespaces.length;
    }
    this.#groups.delete(group);
    this.#unrecordedOwners.delete(group);
    return namespaces;
  }

  /** Does one step of work. A group is removed after its last step. */
  step(): void {
    let work = this.#recordOwners();
    if (work >= podsPerStep) return;
    const turn = this.#nextTurn();
    while (work < podsPerStep) {
      const group = turn ? nextOf(turn) : this.#groups.keys().next().value;
      if (group === undefined) return;
      work += this.#stepOf(group);
      if (turn && !this.#groups.has(group)) turn.left--;
    }
  }

  /** Does one step of work on a group. @returns the work in comparisons: a whole step, unless it was the last one */
  #stepOf(group: string): number {
    const result = this.#groups.get(group)?.steps.next();
    if (result?.done !== true) return podsPerStep;
    // 1 is for starting and ending the work on a group.
    return 1 + result.value + this.delete(group) * workOfNamespace;
  }

  /** Records owners of groups, for at most about one step. @returns the work in comparisons */
  #recordOwners(): number {
    let work = 0;
    for (const [group, owners] of this.#unrecordedOwners) {
      if (work >= podsPerStep) break;
      this.#unrecordedOwners.delete(group);
      const isKnown = this.#batches.has(owners.key);
      if (!isKnown && owners.size > fewOwners) {
        work += this.#stepOf(group);
        if (!this.#groups.has(group)) continue;
      }
      const names = isKnown ? [] : [...owners.names()];
      this.#join(group, owners.key, names);
      work += (1 + names.length) * workOfNamespace;
    }
    return work;
  }

  /** @param namespaces only used if there is no batch with this key yet */
  #join(group: string, key: string | bigint, namespaces: readonly string[]): void {
    const work = this.#groups.get(group);
    if (!work) return;
    const batch = this.#batches.get(key) ?? this.#begin(key, namespaces);
    batch.groups.add(group);
    work.batches.add(batch);
  }

  #begin(key: string | bigint, namespaces: readonly string[]): Batch {
    const batch: Batch = { key, namespaces, groups: new Set() };
    this.#batches.set(key, batch);
    for (const namespace of namespaces) {
      const turn: Turn = this.#turns.get(namespace) ?? { batches: [], waiting: 0, left: 0 };
      this.#turns.set(namespace, turn);
      // Elsewhere, empty batches are only removed from the front, and the first one may never become empty.
      if (turn.batches.length > 2 * (turn.waiting + maxIdle))
        turn.batches = turn.batches.filter(isWaiting);
      turn.batches.push(batch);
      turn.waiting++;
    }
    return batch;
  }

  #end(batch: Batch): void {
    this.#batches.delete(batch.key);
    for (const namespace of batch.namespaces) {
      const turn = this.#turns.get(namespace);
      if (turn && --turn.waiting === 0) this.#turns.delete(namespace);
    }
  }

  /** The turn of the next namespace, which is moved to the end. Undefined if no namespace waits. */
  #nextTurn(): Turn | undefined {
    const [next] = this.#turns;
    if (!next) return undefined;
    const [namespace, turn] = next;
    this.#turns.delete(namespace);
    this.#turns.set(namespace, turn);
    return turn;
  }
}

/** The next group of a namespace. Undefined if it no longer waits for any. */
function nextOf(turn: Turn): string | undefined {
  if (turn.left === 0 && turn.batches[0] === turn.current)
    turn.batches.push(...turn.batches.splice(0, 1));
  const first = turn.batches.findIndex(isWaiting);
  if (first > 0) turn.batches = turn.batches.slice(first);
  const [batch] = turn.batches;
  if (turn.left === 0 || batch !== turn.current) turn.left = batch?.groups.size ?? 0;
  turn.current = batch;
  return batch?.groups.values().next().value;
}

function isWaiting({ groups }: Batch): boolean {
  return groups.size > 0;
}
