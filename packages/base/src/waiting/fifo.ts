/** A queue that takes out its first item in constant time. An array with more than some ten thousand items moves all others. */
export class Fifo<T> {
  #items: T[] = [];
  #taken = 0;

  get length(): number {
    return this.#items.length - this.#taken;
  }

  push(item: T): void {
    this.#items.push(item);
  }

  /** Removes the first item and returns it. Undefined if there is none. */
  shift(): T | undefined {
    if (this.length === 0) return undefined;
    const item = this.#items[this.#taken];
    this.#taken++;
    if (this.#taken * 2 >= this.#items.length) {
      this.#items = this.#items.slice(this.#taken);
      this.#taken = 0;
    }
    return item;
  }

  /** The items in their order. */
  values(): IteratorObject<T> {
    return this.#items.values().drop(this.#taken);
  }
}
