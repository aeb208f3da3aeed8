import type { Owners } from "./owners.ts";

/** Groups that the same namespaces wait for. */
interface Batch {
  readonly key: string | bigint;
  readonly namespaces: readonly string[];
  readonly groups: Set<string>;
}

/** What a namespace waits for. Thousands of namespaces may wait for hundreds of batches: a list takes less memory than a set, and grows faster. */
interface Turn {
  /** Those that have no groups any longer stay until they are in the way. */
  batches: Batch[];
  /** How many of them have groups. */
  waiting: number;
  /** The one whose groups are being filled. */
  current?: Batch | undefined;
  /** How many of its groups are to be filled before those of the next one. */
  left: number;
}

/** Batches without groups that a namespace may have in any case. */
const mostIdle = 16;

/** A step compares at most about so many pods. */
export const podsPerStep = 64;

/** To note, or forget, that one namespace waits takes a small part of the time of a comparison. */
const workOfNamespace = 1 / 16;

/** To note more owners of one group takes longer than a step. */
const fewOwners = podsPerStep / workOfNamespace;

/** What is read of the owners of a group. */
type GroupOwners = Pick<Owners, "key" | "size" | "names">;

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
 * several want makes a step on the turn of each. Batches come in turn, too, each for as many groups as it has then: groups may be behind again sooner
 * than all of a batch are filled. Groups with the same owners are noted once for all of these: thousands of namespaces may have hundreds of them in common.
 * Where owners differ, to note them is a part of the steps. Of very many owners none is noted if the first step is the last one: owners may change
 * without end, and groups are mostly behind by few pods.
 */
export class FillQueue {
  readonly #groups = new Map<string, Work>();
  /** By the key of the owners, or the name of one namespace. */
  readonly #batches = new Map<string | bigint, Batch>();
  /** Groups that all owners wait for, which are noted by the next steps: each may have thousands. */
  readonly #unnoted = new Map<string, GroupOwners>();
  /** The next turn is that of the first one. */
  readonly #turns = new Map<string, Turn>();

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
    this.#join(group, namespace, [namespace]);
  }

  /** Notes that pods of all owners of a group wait for it. */
  wantForOwners(group: string, owners: GroupOwners): void {
    if (this.#groups.has(group)) this.#unnoted.set(group, owners);
  }

  /** Whether pods of a namespace wait for any group, or may do so: while owners are to be noted, that is so for all. */
  isWantedBy(namespace: string): boolean {
    return this.#unnoted.size > 0 || this.#turns.has(namespace);
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
    this.#unnoted.delete(group);
    return namespaces;
  }

  /** Makes one step of the work; a group is forgotten with its last one. */
  step(): void {
    let work = this.#noteOwners();
    if (work >= podsPerStep) return;
    const turn = this.#nextTurn();
    while (work < podsPerStep) {
      const group = turn ? nextOf(turn) : this.#groups.keys().next().value;
      if (group === undefined) return;
      work += this.#stepOf(group);
      if (turn && !this.#groups.has(group)) turn.left--;
    }
  }

  /** Makes one step of the work on a group. @returns how many pods it counts for: those of a whole step, unless it is the last one */
  #stepOf(group: string): number {
    const result = this.#groups.get(group)?.steps.next();
    if (result?.done !== true) return podsPerStep;
    // What it takes to begin and end counts, too.
    return 1 + result.value + this.delete(group) * workOfNamespace;
  }

  /** Notes owners of one group after the other. @returns how many comparisons would have taken as long, about those of a step at most */
  #noteOwners(): number {
    let work = 0;
    for (const [group, owners] of this.#unnoted) {
      if (work >= podsPerStep) break;
      this.#unnoted.delete(group);
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

  /** @param namespaces are read if no group of the same ones is there */
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
      // One in front may have groups without end.
      if (turn.batches.length > 2 * (turn.waiting + mostIdle))
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

  /** What the namespace waits for whose turn it is; undefined if none waits. */
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
