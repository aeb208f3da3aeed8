import { PriorityQueue } from "../services/priority-queue.ts";

/** Minimum cost of a turn, milliseconds, so that namespaces take turns even if the measured time is 0. */
const leastMs = 0.01;

/**
 * A queue that is fair between namespaces: the next turn goes to the namespace that has used the least time. If a namespace has many slow
 * items, the others wait for only one of them at a time.
 *
 * A namespace that was idle cannot make up for the time that it has not used. Its used time becomes that of the namespace served last, or stays
 * if it is more. Items of a namespace that belong together are served one after the other.
 */
export class FairQueue<T extends { readonly namespace: string }> {
  readonly #items = new Map<string, Map<unknown, Set<T>>>();
  readonly #partOf: (item: T) => unknown;
  /** Namespaces by the time that they have used. One without items stays until it would be next. */
  readonly #turns = new PriorityQueue<number>();
  /** The used time of the namespace that was served last. */
  #usedMs = 0;
  #size = 0;

  /** @param partOf a key for items that belong together. It is constant while an item waits. @default all items of a namespace belong together */
  constructor(partOf: (item: T) => unknown = () => undefined) {
    this.#partOf = partOf;
  }

  get size(): number {
    return this.#size;
  }

  has(item: T): boolean {
    return this.#items.get(item.namespace)?.get(this.#partOf(item))?.has(item) ?? false;
  }

  add(item: T): void {
    if (this.has(item)) return;
    const { namespace } = item;
    const parts = this.#items.get(namespace) ?? new Map<unknown, Set<T>>();
    const part = this.#partOf(item);
    if (this.#turns.rankOf(namespace) === undefined) this.#turns.set(namespace, this.#usedMs);
    this.#items.set(namespace, parts.set(part, (parts.get(part) ?? new Set()).add(item)));
    this.#size++;
  }

  delete(item: T): void {
    const parts = this.#items.get(item.namespace);
    const items = parts?.get(this.#partOf(item));
    if (items?.delete(item) !== true) return;
    this.#size--;
    if (items.size === 0) parts?.delete(this.#partOf(item));
    if (parts?.size === 0) this.#items.delete(item.namespace);
  }

  /** The item to serve next, which stays in the queue until it is deleted. */
  get next(): T | undefined {
    for (let { least } = this.#turns; least !== undefined; { least } = this.#turns) {
      const [items] = this.#items.get(least)?.values() ?? [];
      const [item] = items ?? [];
      if (item) {
        this.#usedMs = this.#turns.rankOf(least) ?? this.#usedMs;
        return item;
      }
      this.#turns.set(least, undefined);
    }
    return undefined;
  }

  /** Adds the time that the last turn of a namespace took, milliseconds. */
  charge(namespace: string, tookMs: number): void {
    const usedMs = this.#turns.rankOf(namespace);
    if (usedMs !== undefined) this.#turns.set(namespace, usedMs + Math.max(leastMs, tookMs));
  }
}
