/** Options of {@link PolicySources}. */
export interface PolicySourcesOptions {
  /** Watches the objects that policies depend on until the signal aborts. Resolves when all of them are known. */
  readonly begin: (signal: AbortSignal) => Promise<void>;
  /** Removes the watched objects. */
  readonly forget: () => void;
}

/**
 * Watches the objects that policies depend on, such as the pods of the whole cluster, but only while there is a policy. Changes of policies
 * are held until all of these objects are known. Otherwise pods would be closed to peers that a policy allows.
 */
export class PolicySources {
  readonly #options: PolicySourcesOptions;
  #count = 0;
  #abort: AbortController | undefined;
  #synced: Promise<void> = Promise.resolve();
  /** Changes of policies that are held. Undefined while changes are not held. */
  #held: (() => void)[] | undefined;

  constructor(options: PolicySourcesOptions) {
    this.#options = options;
  }

  /** Resolves when all received policies have been passed on. The first policy after a time without any creates a new promise. */
  get synced(): Promise<void> {
    return this.#synced;
  }

  /** Handles a change of a policy. @param take passes it on. Called now, or when the objects that policies depend on are known */
  change(type: "added" | "updated" | "deleted", take: () => void): void {
    if (type === "added" && this.#count++ === 0) this.#begin();
    if (this.#held) this.#held.push(take);
    else take();
    if (type === "deleted" && --this.#count === 0) this.#end();
  }

  #begin(): void {
    const abort = new AbortController();
    this.#abort = abort;
    const held: (() => void)[] = [];
    this.#held = held;
    this.#synced = this.#options.begin(abort.signal).then(() => {
      if (abort.signal.aborted) return;
      this.#held = undefined;
      for (const take of held) take();
    });
    this.#synced.catch(() => {}); // it was ended before
  }

  #end(): void {
    this.#abort?.abort();
    this.#held = undefined;
    this.#synced = Promise.resolve();
    this.#options.forget();
  }
}
