/**
 * Runs work one call at a time. Calls that arrive during a run share the next run. So every caller gets the result of a run
 * that started after its call.
 */
export class SharedRun<T = void> {
  readonly #work: () => Promise<T>;
  #running: Promise<unknown> = Promise.resolve();
  #next: Promise<T> | undefined;

  constructor(work: () => Promise<T>) {
    this.#work = work;
  }

  /** @throws errors of the work */
  async run(): Promise<T> {
    this.#next ??= this.#after(this.#running);
    return await this.#next;
  }

  async #after(before: Promise<unknown>): Promise<T> {
    await before.catch(() => {}); // its callers get the error
    this.#running = this.#next ?? Promise.resolve();
    this.#next = undefined;
    return await this.#work();
  }
}
