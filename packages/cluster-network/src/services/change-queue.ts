import { PriorityQueue } from "./priority-queue.ts";
import { namespaceOf } from "../budget/namespace-budget.ts";

/** Limits for the changes that one call takes. A Service counts with its weight, which is 1 for a small one. */
export interface ChangeShare {
  /** Limit for one namespace, above 0. The change that exceeds it is still taken. */
  readonly perNamespace: number;
  /** Limit for all namespaces together. Only the change that has waited longest may exceed it. */
  readonly total: number;
}

/** No limits. */
export const allChanges: ChangeShare = {
  perNamespace: Number.POSITIVE_INFINITY,
  total: Number.POSITIVE_INFINITY,
};

/** A change that waits. */
interface Change {
  readonly key: string;
  /** A sequence number. The change with the lowest one has waited longest. */
  readonly age: number;
}

/** How the next change of a namespace ranks among those of other namespaces. */
interface First {
  readonly age: number;
  /** Total weight that the current `take()` has taken from the namespace, including this change. */
  readonly end: number;
}

/** Changes of one namespace, the oldest first. Those before index `start`, and some after it, no longer wait. */
interface Line {
  changes: Change[];
  start: number;
  waiting: number;
}

/**
 * A fair queue of changed Services. A Service is in it only once, even if it changes several times. Within a namespace the oldest change
 * comes first. Namespaces have equal shares, so small changes of one namespace do not wait for large or many changes of another. The change
 * that has waited longest of all is always taken, so every change is taken in the end.
 *
 * The duration of `take()` depends on what was added since the last call and on what it takes. It does not depend on the queue's length.
 */
export class ChangeQueue {
  /** Changes that do not count towards the limits. */
  readonly #free = new Set<string>();
  /** Ages of all other changes. */
  readonly #ages = new Map<string, number>();
  readonly #lines = new Map<string, Line>();
  /** Namespaces by the age of their first change. */
  readonly #oldest = new PriorityQueue<number>((a, b) => a < b);
  /** Namespaces whose first change is weighed, by that weight. */
  readonly #lightest = new PriorityQueue<First>(
    (a, b) => a.end < b.end || (a.end === b.end && a.age < b.age),
  );
  /** Namespaces whose first change is not weighed yet. */
  readonly #unweighed = new Set<string>();
  #lastAge = 0;

  get size(): number {
    return this.#free.size + this.#ages.size;
  }

  /**
   * Adds a changed Service. Its weight may also have changed.
   *
   * @param isFree whether the next `take()` takes it in any case, without counting it towards the limits
   */
  add(key: string, isFree = false): void {
    if (isFree) {
      this.#deleteWaiting(key);
      this.#free.add(key);
      return;
    }
    this.#free.delete(key);
    const namespace = namespaceOf(key);
    if (!this.#ages.has(key)) this.#append(namespace, key);
    if (this.#firstOf(namespace)?.key === key) this.#noteFirst(namespace);
  }

  delete(key: string): void {
    this.#free.delete(key);
    this.#deleteWaiting(key);
  }

  /**
   * Removes and returns changes.
   *
   * @param share the limits
   * @param weightOf returns the weight of a Service that is not free. It is above 0, and constant until the Service is added again
   */
  take(share: ChangeShare, weightOf: (key: string) => number): readonly string[] {
    this.#weigh(weightOf);
    const keys = [...this.#free];
    this.#free.clear();
    const taken = new Map<string, number>();
    let room = share.total;
    let namespace = this.#oldest.least;
    while (namespace !== undefined) {
      const before = taken.get(namespace) ?? 0;
      const end = this.#lightest.rankOf(namespace)?.end ?? before;
      const first = this.#firstOf(namespace);
      if (!first || (taken.size > 0 && end - before > room)) break;
      room -= end - before;
      keys.push(first.key);
      this.#remove(namespace, first.key);
      taken.set(namespace, end);
      const next = end < share.perNamespace ? this.#firstOf(namespace) : undefined;
      this.#lightest.set(namespace, next && { age: next.age, end: end + weightOf(next.key) });
      namespace = this.#lightest.least;
    }
    for (const each of taken.keys()) this.#noteFirst(each);
    return keys;
  }

  #deleteWaiting(key: string): void {
    const namespace = namespaceOf(key);
    const isFirst = this.#firstOf(namespace)?.key === key;
    this.#remove(namespace, key);
    if (isFirst) this.#noteFirst(namespace);
  }

  #append(namespace: string, key: string): void {
    const line = this.#lines.get(namespace) ?? { changes: [], start: 0, waiting: 0 };
    this.#lines.set(namespace, line);
    const age = ++this.#lastAge;
    this.#ages.set(key, age);
    line.changes.push({ key, age });
    line.waiting++;
    if (line.changes.length <= 4 * line.waiting + 8) return;
    line.changes = line.changes.filter((each) => this.#isWaiting(each));
    line.start = 0;
  }

  #remove(namespace: string, key: string): void {
    const line = this.#lines.get(namespace);
    if (line && this.#ages.delete(key)) line.waiting--;
  }

  #isWaiting({ key, age }: Change): boolean {
    return this.#ages.get(key) === age;
  }

  #firstOf(namespace: string): Change | undefined {
    const line = this.#lines.get(namespace);
    if (!line) return undefined;
    for (;;) {
      const first = line.changes[line.start];
      if (!first || this.#isWaiting(first)) return first;
      line.start++;
      if (2 * line.start < line.changes.length) continue;
      line.changes = line.changes.slice(line.start);
      line.start = 0;
    }
  }

  #noteFirst(namespace: string): void {
    const first = this.#firstOf(namespace);
    this.#oldest.set(namespace, first?.age);
    this.#lightest.set(namespace, undefined);
    if (first) {
      this.#unweighed.add(namespace);
      return;
    }
    this.#unweighed.delete(namespace);
    this.#lines.delete(namespace);
  }

  #weigh(weightOf: (key: string) => number): void {
    for (const namespace of this.#unweighed) {
      const first = this.#firstOf(namespace);
      if (first) this.#lightest.set(namespace, { age: first.age, end: weightOf(first.key) });
    }
    this.#unweighed.clear();
  }
}
