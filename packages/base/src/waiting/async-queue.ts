/**
 * An unbounded queue that is read with `for await`; ends after {@link AsyncQueue.end}.
 * For one reader. A reader that leaves the loop closes the queue: later pushes are dropped.
 */
export class AsyncQueue<T> implements AsyncIterable<T> {
  readonly #items: T[] = [];
  #wake: (() => void) | undefined;
  #ended = false;
  #error: Error | undefined;

  /** Adds an item; ignored once the queue has ended. */
  push(item: T): void {
    if (this.#ended) return;
    this.#items.push(item);
    this.#wake?.();
  }

  /** Ends the queue, with an error for the reader if one is given. Items already in it are still read. */
  end(error?: Error): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#error = error;
    this.#wake?.();
  }

  async *[Symbol.asyncIterator](): AsyncIterator<T> {
    try {
      for (;;) {
        while (this.#items.length > 0) {
          const item = this.#items.shift();
          if (item !== undefined) yield item;
        }
        if (this.#ended) {
          if (this.#error) throw this.#error;
          return;
        }
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
        this.#wake = undefined;
      }
    } finally {
      this.#ended = true;
      this.#items.length = 0;
    }
  }
}
