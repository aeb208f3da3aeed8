import { PriorityQueue } from "../services/priority-queue.ts";

/** What a turn counts at least, milliseconds: namespaces that take no time at all take turns, too. */
const leastMs = 0.01;

/**
 * What waits, by namespace: the next turn is that of a namespace that has had the least time so far. So one that takes long for each of
 * many, as its users decide, holds back others for one of them at most. A namespace for which nothing has waited for a while begins with
 * the time of those that do; until they have had as much time as it had, what comes for it waits for them.
 *
 * Of one namespace, what belongs together comes one after the other.
 */
export class FairQueue<T extends { readonly namespace: string }> {
  readonly #items = new Map<string, Map<unknown, Set<T>>>();
  readonly #partOf: (item: T) => unknown;
  /** By the time that each has had; one for which nothing waits stays until it would have the next turn. */
  readonly #turns = new PriorityQueue<number>();
  /** That of the last turn. */
  #usedMs = 0;
  #size = 0;

  /** @param partOf what an item belongs to, as long as it waits. @default all items of a namespace belong together */
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

  /** What is served next: it stays until it is deleted. */
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

  /** Notes what the last turn of a namespace has taken, milliseconds. */
  charge(namespace: string, tookMs: number): void {
    const usedMs = this.#turns.rankOf(namespace);
    if (usedMs !== undefined) this.#turns.set(namespace, usedMs + Math.max(leastMs, tookMs));
  }
}
