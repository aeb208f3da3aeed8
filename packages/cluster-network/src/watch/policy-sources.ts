/** What {@link PolicySources} needs. */
export interface PolicySourcesOptions {
  /** Begins to watch what policies depend on, until the signal aborts; resolves when all of it is known. */
  readonly begin: (signal: AbortSignal) => Promise<void>;
  /** Forgets what was watched. */
  readonly forget: () => void;
}

/**
 * Watches what policies depend on, such as the pods of the whole cluster, only while there is a policy. Changes of policies are held back until
 * all of that is known, as pods would otherwise be closed to peers that a policy allows.
 */
export class PolicySources {
  readonly #options: PolicySourcesOptions;
  #count = 0;
  #abort: AbortController | undefined;
  #synced: Promise<void> = Promise.resolve();
  /** Changes of policies that are held back; undefined while none are. */
  #held: (() => void)[] | undefined;

  constructor(options: PolicySourcesOptions) {
    this.#options = options;
  }

  /** Resolves when all policies that have come are passed on. The first policy after a time without any makes a new promise. */
  get synced(): Promise<void> {
    return this.#synced;
  }

  /** Takes a change of a policy. @param take passes it on; called now, or when what policies depend on is known */
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
