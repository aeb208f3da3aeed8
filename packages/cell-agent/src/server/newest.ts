/**
 * Values of which only the newest matters, read with `for await`: one that comes before the last was read takes its place, so
 * that a writer without pause costs no memory. For one reader; ends after {@link Newest.end}.
 */
export class Newest<T> implements AsyncIterable<T> {
  #unread: { readonly value: T } | undefined;
  #hasEnded = false;
  #wake: (() => void) | undefined;

  /** Ignored once it has ended. */
  push(value: T): void {
    if (this.#hasEnded) return;
    this.#unread = { value };
    this.#wake?.();
  }

  /** A value that is not read yet is still read. */
  end(): void {
    this.#hasEnded = true;
    this.#wake?.();
  }

  async *[Symbol.asyncIterator](): AsyncIterator<T> {
    for (;;) {
      const unread = this.#unread;
      this.#unread = undefined;
      if (unread) yield unread.value;
      else if (this.#hasEnded) return;
      else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    }
  }
}
