import { setImmediate } from "node:timers/promises";
import { untilAborted } from "@kip/base";

/** Options of {@link FirstVersions}. */
export interface FirstVersionsOptions {
  readonly index: {
    /** The number of the latest change. */
    readonly lastChange: number;
    /** Whether any change up to this number is not computed yet. */
    isBehind(change: number): boolean;
  };
  /** Makes the next version, which contains some of the changes. */
  readonly flush: () => void;
  /** Whether there is a cell. Then versions are made for it elsewhere, and there is nothing to wait for here. */
  readonly hasCells: () => boolean;
  readonly signal: AbortSignal;
}

interface Waiter {
  readonly change: number;
  readonly resolve: () => void;
}

/**
 * Computes changes of Services before there is a cell, version by version, with other work of the process in between. Each caller waits for
 * the changes until its call, but not for later ones, because these may never end. All callers share the versions.
 */
export class FirstVersions {
  readonly #options: FirstVersionsOptions;
  /** In the order of their changes. */
  #waiters: Waiter[] = [];
  #isRunning = false;

  constructor(options: FirstVersionsOptions) {
    this.#options = options;
  }

  /** Whether versions are being made. */
  get isRunning(): boolean {
    return this.#isRunning;
  }

  /** Whether {@link FirstVersions.computed} would have to wait. */
  get isBehind(): boolean {
    const { index, hasCells } = this.#options;
    return !hasCells() && index.isBehind(index.lastChange);
  }

  /**
   * Resolves when all changes until now are computed, or when there is a cell.
   *
   * @throws the signal's reason
   */
  async computed(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (!this.isBehind) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const waiter = { change: this.#options.index.lastChange, resolve };
    this.#waiters.push(waiter);
    void this.#run();
    try {
      await untilAborted(promise, AbortSignal.any([signal, this.#options.signal]));
    } finally {
      if (signal.aborted) this.#waiters = this.#waiters.filter((each) => each !== waiter);
    }
  }

  async #run(): Promise<void> {
    if (this.#isRunning) return;
    this.#isRunning = true;
    const { index, hasCells, flush, signal } = this.#options;
    while (this.#waiters.length > 0) {
      await setImmediate();
      if (signal.aborted) break;
      if (!hasCells()) flush();
      const first = this.#waiters.findIndex(({ change }) => !hasCells() && index.isBehind(change));
      const done = this.#waiters.splice(0, first < 0 ? this.#waiters.length : first);
      for (const { resolve } of done) resolve();
    }
    this.#isRunning = false;
  }
}
