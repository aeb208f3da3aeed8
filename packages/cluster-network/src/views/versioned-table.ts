/** A map with a log of changes. A reader of an earlier version gets each key that has changed since then once. */
export class VersionedTable<V> {
  readonly #values = new Map<string, V>();
  #log: { readonly version: number; readonly key: string }[] = [];
  readonly #minRemembered: number;
  /** Changes up to this version are no longer in the log. */
  #forgotten = 0;

  /** @param minRemembered the minimum number of changes that are remembered, even if there are few values. Up to twice as many are stored */
  constructor(minRemembered: number) {
    this.#minRemembered = minRemembered;
  }

  get size(): number {
    return this.#values.size;
  }

  get(key: string): V | undefined {
    return this.#values.get(key);
  }

  entries(): Iterable<readonly [string, V]> {
    return this.#values.entries();
  }

  /** Sets a value, or removes it with undefined. Versions must not decrease. */
  set(key: string, value: V | undefined, version: number): void {
    if (value === undefined) this.#values.delete(key);
    else this.#values.set(key, value);
    this.#log.push({ version, key });
    if (this.#log.length > 2 * Math.max(this.#minRemembered, this.#values.size)) this.#forget();
  }

  /** The changes after a version. The value of a removed key is undefined. Returns undefined if the changes are no longer remembered. */
  since(version: number): ReadonlyMap<string, V | undefined> | undefined {
    if (version < this.#forgotten) return undefined;
    const changes = new Map<string, V | undefined>();
    for (let i = this.#log.length - 1; i >= 0; i--) {
      const entry = this.#log[i];
      if (!entry || entry.version <= version) break;
      changes.set(entry.key, this.#values.get(entry.key));
    }
    return changes;
  }

  /** The version of the last change that is not after a version. {@link VersionedTable.since} returns the same for both. */
  lastChange(version: number): number {
    let [from, to] = [0, this.#log.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if ((this.#log[middle]?.version ?? 0) <= version) from = middle + 1;
      else to = middle;
    }
    return this.#log[from - 1]?.version ?? Math.min(version, this.#forgotten);
  }

  #forget(): void {
    const half = Math.floor(this.#log.length / 2);
    this.#forgotten = this.#log[half - 1]?.version ?? this.#forgotten;
    this.#log = this.#log.slice(half);
  }
}
