/**
 * Runs a piece of work one at a time. A call that comes while it runs shares the next run with all others that come
 * until then, so every caller gets the result of a run that began after its call.
 */
export class SharedRun<T = void> {
  readonly #work: () => Promise<T>;
  #running: Promise<unknown> = Promise.resolve();
  #next: Promise<T> | undefined;

  constructor(work: () => Promise<T>) {
    this.#work = work;
  }

  /** @throws what the work throws */
  async run(): Promise<T> {
    this.#next ??= this.#after(this.#running);
    return await this.#next;
  }

  async #after(before: Promise<unknown>): Promise<T> {
    await before.catch(() => {}); // its callers see it
    this.#running = this.#next ?? Promise.resolve();
    this.#next = undefined;
    return await this.#work();
  }
}
