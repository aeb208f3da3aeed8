import { watchOrPoll } from "@kip/base";

/** Wakes a reader when the file grew or its writer is done. Changes that are not read yet count as one. */
export class LogChanges implements Disposable {
  hasEnded = false;
  #change = Promise.withResolvers<void>();
  readonly #stop: () => void;

  constructor(file: string, ended: Promise<unknown>, signal: AbortSignal) {
    const wake = (): void => this.#change.resolve();
    const onEnd = (): void => {
      this.hasEnded = true;
      wake();
    };
    void ended.then(onEnd, onEnd);
    signal.addEventListener("abort", wake, { once: true });
    const watcher = watchOrPoll(file, wake);
    // What was written between the reader's last look and the start of watching.
    wake();
    this.#stop = () => {
      watcher[Symbol.dispose]();
      signal.removeEventListener("abort", wake);
    };
  }

  /** Resolves when something has happened since the last time. For one reader. */
  async next(): Promise<void> {
    await this.#change.promise;
    this.#change = Promise.withResolvers();
  }

  [Symbol.dispose](): void {
    this.#stop();
  }
}
