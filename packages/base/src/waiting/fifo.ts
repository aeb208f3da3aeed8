/** A queue that takes out its first item in constant time. An array with more than some ten thousand items moves all others. */
export class Fifo<T> {
  #items: T[] = [];
  #taken = 0;

  get length(): number {
    return this.#items.length - this.#taken;
  }

  /** The item that {@link Fifo.shift} takes next. Undefined if there is none. */
  get first(): T | undefined {
    return this.#items[this.#taken];
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
}
