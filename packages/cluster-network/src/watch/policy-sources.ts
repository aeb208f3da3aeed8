/** What a {@link PolicySources} needs to begin and end. */
export interface PolicySourcesOptions {
  /** Begins to watch what policies depend on, until the signal aborts; resolves when all of it is known. */
  readonly begin: (signal: AbortSignal) => Promise<void>;
  /** Forgets what was watched. */
  readonly forget: () => void;
}

/**
 * Watches what policies depend on, the pods of the whole cluster, only while there is a policy. Policies are held back until
 * all of it is known: before, they would close pods to peers that they allow.
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

  /** Resolves when policies are in force as far as they are known; a policy that comes later makes a new promise. */
  get synced(): Promise<void> {
    return this.#synced;
  }

  /** Takes a change of a policy. @param take hands it on */
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
