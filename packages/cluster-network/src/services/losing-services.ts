import { namespaceOf } from "../budget/namespace-budget.ts";
import { ChangeQueue, type ChangeShare } from "./change-queue.ts";

/**
 * Services that will lose addresses to others. They wait in the queue as changes of the namespaces that gain the addresses. So a namespace
 * that gains very many addresses only delays itself.
 */
export class LosingServices {
  readonly #queue = new ChangeQueue();
  /** Entries of the queue for each losing Service. An entry is the namespace that gains the address, a slash, and the losing Service. */
  readonly #entries = new Map<string, Set<string>>();

  get size(): number {
    return this.#queue.size;
  }

  has(key: string): boolean {
    return this.#entries.has(key);
  }

  /** Adds a Service that loses an address to another one. */
  add(key: string, to: string): void {
    const entry = `${namespaceOf(to)}/${key}`;
    this.#entries.set(key, (this.#entries.get(key) ?? new Set()).add(entry));
    this.#queue.add(entry);
  }

  /** Removes a Service that has lost its addresses. */
  delete(key: string): void {
    for (const entry of this.#entries.get(key) ?? []) this.#queue.delete(entry);
    this.#entries.delete(key);
  }

  /** Removes and returns some Services, see {@link ChangeQueue.take}. */
  take(share: ChangeShare, weightOf: (key: string) => number): ReadonlySet<string> {
    const entries = this.#queue.take(share, (entry) => weightOf(serviceOf(entry)));
    const keys = new Set(entries.map(serviceOf));
    for (const key of keys) this.delete(key);
    return keys;
  }
}

function serviceOf(entry: string): string {
  return entry.slice(entry.indexOf("/") + 1);
}
