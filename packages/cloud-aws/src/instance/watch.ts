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

/** Sees an answer on an instance; true: it waits no longer. */
type Waiter = (seen: SeenInstance | undefined) => boolean;

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
   * Resolves with what `judge` makes of the instance, once it is not undefined. It is asked at once, and again with each look.
   *
   * @throws what `judge` throws, or the signal's reason
   */
  async until<T>(
    id: string,
    judge: (seen: SeenInstance | undefined) => T | undefined,
    signal?: AbortSignal,
  ): Promise<T> {
    signal?.throwIfAborted();
    this.#options.signal.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const waiter: Waiter = (seen) => {
      try {
        const result = judge(seen);
        if (result === undefined) return false;
        resolve(result);
      } catch (error) {
        reject(error);
      }
      return true;
    };
    const first = await untilAborted(this.#options.instances.get(id), signal);
    if (!waiter(first)) this.#add(id, waiter);
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
    while (this.#waiters.size > 0 && (await pause(pollMs, clock, signal))) {
      try {
        // One call: the look-ups of a moment are one batch.
        await Promise.all(
          [...this.#waiters.keys()].map(async (id) => {
            const seen = await instances.get(id);
            for (const waiter of this.#waiters.get(id) ?? [])
              if (waiter(seen)) this.#remove(id, waiter);
          }),
        );
      } catch (err) {
        if (!signal.aborted) logger.warn("Could not look at the instances of the cloud", { err });
      }
    }
    this.#isPolling = false;
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
