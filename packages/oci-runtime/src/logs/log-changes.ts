import { isSystemError, watchOrPoll } from "@kip/base";

/** Wakes a reader when the file that it watches changed or its writer is done. Changes that are not read yet count as one. */
export class LogChanges implements Disposable {
  hasEnded = false;
  #change = Promise.withResolvers<void>();
  #watcher: Disposable | undefined;
  readonly #signal: AbortSignal;
  readonly #wake = (): void => this.#change.resolve();

  constructor(ended: Promise<unknown>, signal: AbortSignal) {
    this.#signal = signal;
    const onEnd = (): void => {
      this.hasEnded = true;
      this.#wake();
    };
    void ended.then(onEnd, onEnd);
    signal.addEventListener("abort", this.#wake, { once: true });
  }

  /** Watches this file in place of the one before. What the file has now counts as a change. */
  watch(file: string): void {
    this.#watcher?.[Symbol.dispose]();
    this.#watcher = undefined;
    try {
      this.#watcher = watchOrPoll(file, this.#wake);
    } catch (error) {
      // It is open, and compressed or removed by now: it is full.
      if (!isSystemError(error, "ENOENT")) throw error;
    }
    this.#wake();
  }

  /** Resolves when something has happened since the last time. For one reader. */
  async next(): Promise<void> {
    await this.#change.promise;
    this.#change = Promise.withResolvers();
  }

  [Symbol.dispose](): void {
    this.#watcher?.[Symbol.dispose]();
    this.#signal.removeEventListener("abort", this.#wake);
  }
}
