import { pause, untilAborted, type Clock, type Logger } from "@kip/base";
import type { Instance } from "@kip/cloud";
import type { Instances } from "./instances.ts";
import type { SeenInstance } from "./to-instance.ts";

/** What {@link InstanceWatch} works with. */
export interface InstanceWatchOptions {
  readonly instances: Instances;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Between two looks at instances that somebody waits for, milliseconds. */
  readonly pollMs: number;
  /** Between two looks for instances that have ended by themselves, milliseconds. */
  readonly endsMs: number;
  readonly signal: AbortSignal;
}

/** What {@link InstanceWatch.until} is asked for besides. */
export interface UntilOptions {
  readonly signal?: AbortSignal | undefined;
  /** What is known of the instance leaves it open: the first look can wait for the next round. @default false */
  readonly isOpen?: boolean | undefined;
  /** Nothing hurries: every fifth look will do, or one that others cause. @default false */
  readonly isPatient?: boolean | undefined;
}

interface Waiter {
  /** Sees an answer on an instance; true: it waits no longer. */
  readonly see: (seen: SeenInstance | undefined) => boolean;
  readonly isPatient: boolean;
}

/** In how many looks those that have patience are looked at once, if no other caller waits. */
const patience = 5;

/**
 * Asks EC2 for all that wait: EC2 reports nothing by itself, so one loop looks at all instances that are waited for by one
 * call, and one looks for ends while there is somebody to report them to.
 */
export class InstanceWatch {
  readonly #options: InstanceWatchOptions;
  readonly #waiters = new Map<string, Set<Waiter>>();
  readonly #ended = new Set<(instance: Instance) => void>();
  #isPolling = false;
  #isLooking = false;

  constructor(options: InstanceWatchOptions) {
    this.#options = options;
    options.instances.onEnded = (instance) => {
      for (const callback of this.#ended) callback(instance);
    };
  }

  /**
   * Resolves with what `judge` makes of the instance, once it is not undefined. It is asked at once, unless `isOpen`, and again
   * with each look.
   *
   * @throws what `judge` throws, or the signal's reason
   */
  async until<T>(
    id: string,
    judge: (seen: SeenInstance | undefined) => T | undefined,
    { signal, isOpen = false, isPatient = false }: UntilOptions = {},
  ): Promise<T> {
    const { instances } = this.#options;
    signal?.throwIfAborted();
    this.#options.signal.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const see = (seen: SeenInstance | undefined): boolean => {
      try {
        const result = judge(seen);
        if (result === undefined) return false;
        resolve(result);
      } catch (error) {
        reject(error);
      }
      return true;
    };
    const waiter: Waiter = { see, isPatient };
    if (isOpen || !see(await untilAborted(instances.get(id), signal))) this.#add(id, waiter);
    try {
      return await untilAborted(promise, this.#until(signal));
    } finally {
      this.#remove(id, waiter);
    }
  }

  /**
   * Calls back for each instance that ends without this process having asked for that, or waiting for it: EC2 does not say which
   * of its clients asked, so the end of an instance that a person terminates is reported, too.
   */
  listen(callback: (instance: Instance) => void): () => void {
    const own = (instance: Instance): void => callback(instance);
    this.#ended.add(own);
    void this.#look();
    return () => void this.#ended.delete(own);
  }

  #until(signal?: AbortSignal): AbortSignal {
    const closed = this.#options.signal;
    return signal ? AbortSignal.any([signal, closed]) : closed;
  }

  #add(id: string, waiter: Waiter): void {
    const waiters = this.#waiters.get(id) ?? new Set();
    this.#waiters.set(id, waiters.add(waiter));
    void this.#poll();
  }

  #remove(id: string, waiter: Waiter): void {
    const waiters = this.#waiters.get(id);
    waiters?.delete(waiter);
    if (waiters?.size === 0) this.#waiters.delete(id);
  }

  async #poll(): Promise<void> {
    if (this.#isPolling) return;
    this.#isPolling = true;
    const { instances, clock, logger, pollMs, signal } = this.#options;
    for (let turn = 1; this.#waiters.size > 0; turn++) {
      if (!(await pause(pollMs, clock, signal))) break;
      if (turn % patience !== 0 && this.#areAllPatient()) continue;
      try {
        // One call: the look-ups of a moment are one batch.
        await Promise.all(
          [...this.#waiters.keys()].map(async (id) => {
            const seen = await instances.get(id);
            for (const waiter of this.#waiters.get(id) ?? [])
              if (waiter.see(seen)) this.#remove(id, waiter);
          }),
        );
      } catch (err) {
        if (!signal.aborted) logger.warn("Could not look at the instances of the cloud", { err });
      }
    }
    this.#isPolling = false;
  }

  #areAllPatient(): boolean {
    return [...this.#waiters.values()].every((all) => [...all].every(({ isPatient }) => isPatient));
  }

  async #look(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    const { instances, clock, logger, endsMs, signal } = this.#options;
    while (this.#ended.size > 0 && (await pause(endsMs, clock, signal))) {
      try {
        await instances.all();
      } catch (err) {
        if (!signal.aborted) logger.warn("Could not list the instances of the cloud", { err });
      }
    }
    this.#isLooking = false;
  }
}
