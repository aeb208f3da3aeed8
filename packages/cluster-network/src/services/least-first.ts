interface Entry {
  readonly name: string;
  readonly rank: string;
  /** Of several of one rank, the first comes first. */
  readonly number: number;
}

/** Names by rank, of which the least is known: a change takes a time that grows with the logarithm of their number. */
export class LeastFirst {
  readonly #current = new Map<string, Entry>();
  /** A binary heap; what is no longer current is taken out when it is the least, or when that is most of it. */
  #heap: Entry[] = [];
  #lastNumber = 0;

  get size(): number {
    return this.#current.size;
  }

  /** The name of the least rank. */
  get least(): string | undefined {
    for (let [first] = this.#heap; first; [first] = this.#heap) {
      if (this.#current.get(first.name) === first) return first.name;
      this.#takeFirst();
    }
    return undefined;
  }

  /** Sets the rank of a name; undefined removes it. */
  set(name: string, rank: string | undefined): void {
    if (this.#current.get(name)?.rank === rank) return;
    if (rank === undefined) {
      this.#current.delete(name);
      return;
    }
    const entry = { name, rank, number: ++this.#lastNumber };
    this.#current.set(name, entry);
    if (this.#heap.length > 2 * this.#current.size + 8)
      this.#heap = [...this.#current.values()].sort((a, b) => (isBefore(a, b) ? -1 : 1));
    else this.#put(entry);
  }

  #put(entry: Entry): void {
    const heap = this.#heap;
    let at = heap.length;
    for (; at > 0; at = (at - 1) >> 1) {
      const above = heap[(at - 1) >> 1];
      if (!above || isBefore(above, entry)) break;
      heap[at] = above;
    }
    heap[at] = entry;
  }

  #takeFirst(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (!last || heap.length === 0) return;
    let at = 0;
    for (;;) {
      const [left, right] = [heap[2 * at + 1], heap[2 * at + 2]];
      if (!left) break;
      const isRight = right !== undefined && isBefore(right, left);
      const below = isRight ? right : left;
      if (isBefore(last, below)) break;
      heap[at] = below;
      at = 2 * at + (isRight ? 2 : 1);
    }
    heap[at] = last;
  }
}

function isBefore(a: Entry, b: Entry): boolean {
  return a.rank === b.rank ? a.number < b.number : a.rank < b.rank;
}
