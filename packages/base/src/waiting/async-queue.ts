import { Fifo } from "./fifo.ts";

/**
 * An unbounded queue for one reader, read with `for await`. It ends after {@link AsyncQueue.end}. When the reader leaves the
 * loop, the queue closes and drops later items.
 */
export class AsyncQueue<T> implements AsyncIterable<T> {
  #items = new Fifo<T>();
  #wake: (() => void) | undefined;
  #ended = false;
  #error: Error | undefined;

  /** Adds an item. Ignored once the queue has ended. */
  push(item: T): void {
    if (this.#ended) return;
    this.#items.push(item);
    this.#wake?.();
  }

  /** Ends the queue, with an error for the reader if one is given. The reader still gets the items that are already queued. */
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
      this.#items = new Fifo();
    }
  }
}
