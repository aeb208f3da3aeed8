interface Entry<Rank> {
  readonly name: string;
  readonly rank: Rank;
  /** Decides between equal ranks: the lower one comes first. */
  readonly number: number;
}

/** A priority queue of names, the lowest rank first. A change takes logarithmic time. */
export class PriorityQueue<Rank extends string | number | object = string> {
  readonly #isLess: (a: Rank, b: Rank) => boolean;
  readonly #current = new Map<string, Entry<Rank>>();
  /** A binary heap. Outdated entries are removed when they come first, or when most entries are outdated. */
  #heap: Entry<Rank>[] = [];
  #lastNumber = 0;

  /** @param isLess whether a rank comes before another one; default `<` */
  constructor(isLess: (a: Rank, b: Rank) => boolean = (a, b) => a < b) {
    this.#isLess = isLess;
  }

  get size(): number {
    return this.#current.size;
  }

  /** The name with the lowest rank. */
  get least(): string | undefined {
    for (let [first] = this.#heap; first; [first] = this.#heap) {
      if (this.#current.get(first.name) === first) return first.name;
      this.#takeFirst();
    }
    return undefined;
  }

  /** The rank of a name. */
  rankOf(name: string): Rank | undefined {
    return this.#current.get(name)?.rank;
  }

  /** Sets the rank of a name; undefined removes it. */
  set(name: string, rank: Rank | undefined): void {
    if (this.#current.get(name)?.rank === rank) return;
    if (rank === undefined) {
      this.#current.delete(name);
      return;
    }
    const entry = { name, rank, number: ++this.#lastNumber };
    this.#current.set(name, entry);
    if (this.#heap.length > 2 * this.#current.size + 8)
      this.#heap = [...this.#current.values()].sort((a, b) => (this.#isBefore(a, b) ? -1 : 1));
    else this.#put(entry);
  }

  #put(entry: Entry<Rank>): void {
    const heap = this.#heap;
    let at = heap.length;
    for (; at > 0; at = (at - 1) >> 1) {
      const above = heap[(at - 1) >> 1];
      if (!above || this.#isBefore(above, entry)) break;
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
      const isRight = right !== undefined && this.#isBefore(right, left);
      const below = isRight ? right : left;
      if (this.#isBefore(last, below)) break;
      heap[at] = below;
      at = 2 * at + (isRight ? 2 : 1);
    }
    heap[at] = last;
  }

  #isBefore(a: Entry<Rank>, b: Entry<Rank>): boolean {
    if (this.#isLess(a.rank, b.rank)) return true;
    return !this.#isLess(b.rank, a.rank) && a.number < b.number;
  }
}
