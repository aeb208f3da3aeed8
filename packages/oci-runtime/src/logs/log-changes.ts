import { isSystemError, watchOrPoll } from "@kip/base";

/** Interval of waking a reader without an event, because the kernel may have dropped it, milliseconds. */
const usualRecheckMs = 10_000;

/** Wakes a reader when the watched file has changed or its writer has finished. Several unread changes count as one. */
export class LogChanges implements Disposable {
  hasEnded = false;
  #change = Promise.withResolvers<void>();
  #watcher: Disposable | undefined;
  readonly #signal: AbortSignal;
  readonly #recheckMs: number;
  readonly #wake = (): void => this.#change.resolve();

  constructor(ended: Promise<unknown>, signal: AbortSignal, recheckMs = usualRecheckMs) {
    this.#signal = signal;
    this.#recheckMs = recheckMs;
    const onEnd = (): void => {
      this.hasEnded = true;
      this.#wake();
    };
    void ended.then(onEnd, onEnd);
    signal.addEventListener("abort", this.#wake, { once: true });
  }

  /** Watches this file instead of the previous one. Its present content counts as a change. */
  watch(file: string): void {
    this.#watcher?.[Symbol.dispose]();
    this.#watcher = undefined;
    try {
      this.#watcher = watchOrPoll(file, this.#wake, { recheckMs: this.#recheckMs });
    } catch (error) {
      // The reader has it open, but it was compressed or removed by now. So it is full.
      if (!isSystemError(error, "ENOENT")) throw error;
    }
    this.#wake();
  }

  /** Resolves when something has happened since the last call. For one reader. */
  async next(): Promise<void> {
    await this.#change.promise;
    this.#change = Promise.withResolvers();
  }

  [Symbol.dispose](): void {
    this.#watcher?.[Symbol.dispose]();
    this.#signal.removeEventListener("abort", this.#wake);
  }
}
