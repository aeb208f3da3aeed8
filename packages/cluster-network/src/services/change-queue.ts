import { PriorityQueue } from "./priority-queue.ts";
import { namespaceOf } from "../budget/namespace-budget.ts";

/** How many changes are taken at once. A Service counts as its weight, which is 1 for a small one. */
export interface ChangeShare {
  /** Of one namespace, above 0; the change that exceeds it is the last one of the namespace. */
  readonly ofNamespace: number;
  /** Of all namespaces together; none exceeds it but the one that has waited longest. */
  readonly ofAll: number;
}

/** Whatever has changed. */
export const allChanges: ChangeShare = {
  ofNamespace: Number.POSITIVE_INFINITY,
  ofAll: Number.POSITIVE_INFINITY,
};

/** A change that waits. */
interface Change {
  readonly key: string;
  /** The least one has waited longest. */
  readonly age: number;
}

/** The first change of a namespace. */
interface First {
  readonly age: number;
  /** The weight of all that has been taken of the namespace at once, with this one. */
  readonly end: number;
}

/** Changes of one namespace, the first changed first. Those before `start`, and some behind it, do not wait any longer. */
interface Line {
  changes: Change[];
  start: number;
  waiting: number;
}

/**
 * Services that have changed, each once, however often. Of those of a namespace, the first changed comes first. Of several namespaces, each has
 * a share of the same size, so small changes of one do not wait for large or many ones of others; and what has waited longest of all
 * is taken in any case, so every change comes some time.
 *
 * What it costs to take some grows with what has been added since and with what is taken, not with what waits: there may be thousands.
 */
export class ChangeQueue {
  readonly #free = new Set<string>();
  /** Of the others. */
  readonly #ages = new Map<string, number>();
  readonly #lines = new Map<string, Line>();
  /** Namespaces by the age of their first change, and by its weight if that is known. */
  readonly #oldest = new PriorityQueue<number>((a, b) => a < b);
  readonly #lightest = new PriorityQueue<First>(
    (a, b) => a.end < b.end || (a.end === b.end && a.age < b.age),
  );
  readonly #unweighed = new Set<string>();
  #lastAge = 0;

  get size(): number {
    return this.#free.size + this.#ages.size;
  }

  /**
   * Notes that a Service has changed, and that it may have another weight.
   *
   * @param isFree it is taken in any case, and counts nothing
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
   * Takes changes out.
   *
   * @param share how many at most
   * @param weightOf of one that is not free; above 0, and the same until it is added again
   */
  take(share: ChangeShare, weightOf: (key: string) => number): readonly string[] {
    this.#weigh(weightOf);
    const keys = [...this.#free];
    this.#free.clear();
    const taken = new Map<string, number>();
    let room = share.ofAll;
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
      const next = end < share.ofNamespace ? this.#firstOf(namespace) : undefined;
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
