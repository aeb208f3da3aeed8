import type { Owners } from "./owners.ts";

/** Groups that the same namespaces wait for. */
interface Batch {
  readonly key: string | bigint;
  readonly namespaces: readonly string[];
  readonly groups: Set<string>;
}

/** What a namespace waits for. */
interface Turn {
  /** A list, not a set, as thousands of namespaces may wait for hundreds of batches each. Batches without groups are removed later. */
  batches: Batch[];
  /** How many of the batches have groups. */
  waiting: number;
  /** The batch whose groups are being filled. */
  current?: Batch | undefined;
  /** How many of its groups are to be filled before the next batch has its turn. */
  left: number;
}

/** So many batches without groups are kept before they are removed. */
const maxIdle = 16;

/** The work of one step: about so many comparisons of a group with a pod. */
export const podsPerStep = 64;

/** The work of noting or forgetting that a namespace waits, in comparisons. */
const workOfNamespace = 1 / 16;

/** Noting more owners of one group is more than the work of a step. */
const fewOwners = podsPerStep / workOfNamespace;

/** What is read of the owners of a group. */
type GroupOwners = Pick<Owners, "key" | "size" | "names">;

/** The work on one group, in steps. Returns at the end how many comparisons the last step has made. */
export type Steps = Iterator<undefined, number>;

/** Work on one group, in steps. */
interface Work {
  readonly steps: Steps;
  readonly batches: Set<Batch>;
}

/**
 * Groups that have to be compared with pods, and whose turn it is.
 *
 * - Namespaces take turns of one step each. However many groups one of them names, the others' are filled at the same speed. A group that
 *   several namespaces wait for makes progress on the turn of each.
 * - In its turn, a namespace has its groups filled one after the other; several small ones fit into one step.
 * - Groups with the same owners are in one batch, and only the batch is noted for each owner: thousands of namespaces may have hundreds of
 *   groups in common. The batches of a namespace take turns, too, each for as many groups as it has at that time: groups may be out of date
 *   again sooner than all of a batch are filled.
 * - Noting owners is a part of the steps. If a group has very many, its first step is made before; mostly it is the last one, too, and
 *   none need be noted.
 */
export class FillQueue {
  readonly #groups = new Map<string, Work>();
  /** By {@link Owners.key}, or by the name of the namespace if one alone waits. */
  readonly #batches = new Map<string | bigint, Batch>();
  /** Groups whose owners wait for them and are yet to be noted, which is a part of the next steps. */
  readonly #unrecordedOwners = new Map<string, GroupOwners>();
  /** By namespace. The first one is next. */
  readonly #turns = new Map<string, Turn>();

  get size(): number {
    return this.#groups.size;
  }

  has(group: string): boolean {
    return this.#groups.has(group);
  }

  /** Adds a group. While no namespace waits for it, it comes after all groups that one waits for. */
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

  /** Whether pods of a namespace wait for any group. Also true while owners are yet to be noted, as they may be among them. */
  isAwaitedBy(namespace: string): boolean {
    return this.#unrecordedOwners.size > 0 || this.#turns.has(namespace);
  }

  /** Forgets a group, if it is there. @returns how many namespaces were noted for it alone */
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

  /** Makes one step of the work. A group is removed with its last step. */
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

  /** Makes one step of the work on a group. @returns how many comparisons that was: a whole step, unless it was the last one */
  #stepOf(group: string): number {
    const result = this.#groups.get(group)?.steps.next();
    if (result?.done !== true) return podsPerStep;
    // 1 for beginning and ending.
    return 1 + result.value + this.delete(group) * workOfNamespace;
  }

  /** Notes owners of groups, for about a step at most. @returns how many comparisons would have taken as long */
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

  /** @param namespaces needed only if there is no batch of this key yet */
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
      // Batches without groups are otherwise removed from the front only, and the first one may never be without groups.
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

  /** The turn of the next namespace, which then is the last one; undefined if none waits. */
  #nextTurn(): Turn | undefined {
    const [next] = this.#turns;
    if (!next) return undefined;
    const [namespace, turn] = next;
    this.#turns.delete(namespace);
    this.#turns.set(namespace, turn);
    return turn;
  }
}

/** The next group of a namespace; undefined if it waits for none any longer. */
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
