/**
 * Values of which only the newest matters, for one reader with `for await`. A new value replaces one that was not read yet, so
 * a fast writer costs no memory. Ends after {@link Newest.end}.
 */
export class Newest<T> implements AsyncIterable<T> {
  #unread: { readonly value: T } | undefined;
  #hasEnded = false;
  #wake: (() => void) | undefined;

  /** Ignored after the end. */
  push(value: T): void {
    if (this.#hasEnded) return;
    this.#unread = { value };
    this.#wake?.();
  }

  /** A value that was not read yet is still delivered. */
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
