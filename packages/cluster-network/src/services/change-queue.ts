import { namespaceOf } from "./namespace-budget.ts";

/** How many changes are taken at once. A Service counts as its weight, which is 1 for a small one. */
export interface ChangeShare {
  /** Of one namespace; the change that exceeds it is the last one of the namespace. */
  readonly ofNamespace: number;
  /** Of all namespaces together; none exceeds it but the one that has waited longest. */
  readonly ofAll: number;
}

/** Whatever has changed. */
export const allChanges: ChangeShare = {
  ofNamespace: Number.POSITIVE_INFINITY,
  ofAll: Number.POSITIVE_INFINITY,
};

/**
 * Services that have changed, each once, however often. Of those of a namespace, the first changed comes first. Of several namespaces, each has
 * a share of the same size, so small changes of one do not wait for large or many ones of others; and what has waited longest of all
 * is taken in any case, so every change comes some time.
 */
export class ChangeQueue {
  readonly #keys = new Set<string>();

  get size(): number {
    return this.#keys.size;
  }

  add(key: string): void {
    this.#keys.add(key);
  }

  delete(key: string): void {
    this.#keys.delete(key);
  }

  /**
   * Takes changes out.
   *
   * @param share how many at most
   * @param weightOf undefined for what is taken in any case, and counts nothing
   */
  take(share: ChangeShare, weightOf: (key: string) => number | undefined): readonly string[] {
    const free: string[] = [];
    const waiting: { readonly key: string; readonly weight: number; readonly end: number }[] = [];
    const sums = new Map<string, number>();
    for (const key of this.#keys) {
      const namespace = namespaceOf(key);
      const before = sums.get(namespace) ?? 0;
      const weight = weightOf(key);
      if (weight === undefined) free.push(key);
      if (weight === undefined || before >= share.ofNamespace) continue;
      sums.set(namespace, before + weight);
      waiting.push({ key, weight, end: before + weight });
    }
    const [oldest, ...others] = waiting;
    others.sort((a, b) => a.end - b.end);
    let room = share.ofAll - (oldest?.weight ?? 0);
    const fitting = others.filter(({ weight }) => (room -= weight) >= 0);
    const keys = [...free, ...(oldest ? [oldest.key] : []), ...fitting.map(({ key }) => key)];
    for (const key of keys) this.#keys.delete(key);
    return keys;
  }
}
