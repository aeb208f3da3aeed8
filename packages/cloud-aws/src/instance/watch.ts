import { pause, untilAborted, type Clock, type Logger } from "@kip/base";
import type { Instance } from "@kip/cloud";
import type { Instances } from "./instances.ts";
import type { SeenInstance } from "./to-instance.ts";

/** Options of {@link InstanceWatch}. */
export interface InstanceWatchOptions {
  readonly instances: Instances;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Interval of the checks of instances that somebody waits for, milliseconds. */
  readonly pollMs: number;
  /** Interval of the checks for instances that have ended by themselves, milliseconds. */
  readonly endsMs: number;
  readonly signal: AbortSignal;
}

/** Further options of {@link InstanceWatch.until}. */
export interface UntilOptions {
  readonly signal?: AbortSignal | undefined;
  /**
   * Whether the instance's known state cannot end the wait, so that the first check may wait for the next round. @default false
   */
  readonly isOpen?: boolean | undefined;
  /**
   * Whether the wait is not urgent. Then the list of all instances is used. Without one, every fifth check counts, or one made
   * for others. @default false
   */
  readonly isPatient?: boolean | undefined;
  /**
   * Resolves when the wait becomes urgent, for example because the instance answers and so is running. Also urgent
   * after a failure. @default never
   */
  readonly hurries?: ((signal: AbortSignal) => Promise<void>) | undefined;
}

interface Waiter {
  /** Receives each response about an instance. Returns true if it no longer waits. */
  readonly see: (seen: SeenInstance | undefined) => boolean;
  isPatient: boolean;
}

/** Pause while the list of all instances is polled, one day. An urgent wait ends the pause. */
const longestPauseMs = 86_400_000;
/** A wait that is not urgent is checked once in this many rounds, if no other caller waits and nothing lists all instances. */
const patience = 5;

/**
 * Polls EC2 for all waiting callers, because EC2 reports nothing by itself. One loop checks all instances that callers wait
 * for, in one call. Another looks for ended instances while it has listeners.
 */
export class InstanceWatch {
  readonly #options: InstanceWatchOptions;
  readonly #waiters = new Map<string, Set<Waiter>>();
  readonly #ended = new Set<(instance: Instance) => void>();
  /** Aborted and replaced when another caller waits, or a wait becomes urgent. */
  #changed = new AbortController();
  #isPolling = false;
  #isLooking = false;

  constructor(options: InstanceWatchOptions) {
    this.#options = options;
    options.instances.onEnded = (instance) => {
      for (const callback of this.#ended) callback(instance);
    };
  }

  /**
   * Resolves with the result of `judge` for the instance, once it is not undefined. Calls `judge` at once, unless `isOpen`, and
   * again after each check.
   *
   * @throws errors of `judge`, or the signal's reason
   */
  async until<T>(
    id: string,
    judge: (seen: SeenInstance | undefined) => T | undefined,
    { signal, isOpen = false, isPatient = false, hurries }: UntilOptions = {},
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
    const left = new AbortController();
    if (hurries) void this.#hurry(waiter, hurries, left.signal);
    try {
      return await untilAborted(promise, this.#until(signal));
    } finally {
      left.abort();
      this.#remove(id, waiter);
    }
  }

  async #hurry(
    waiter: Waiter,
    hurries: NonNullable<UntilOptions["hurries"]>,
    signal: AbortSignal,
  ): Promise<void> {
    try {
      await hurries(this.#until(signal));
    } catch (err) {
      if (signal.aborted || this.#options.signal.aborted) return;
      this.#options.logger.debug("Could not wait for an instance to answer", { err });
    }
    // A failure also makes the wait urgent, because the event may never come.
    waiter.isPatient = false;
    this.#wake();
  }

  /**
   * Calls back for each instance that ends without this process having asked for that, or waiting for it. EC2 does not say
   * which client asked, so the end of an instance that a person terminates is reported, too.
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
    if (this.#isPolling) {
      this.#wake();
      return;
    }
    this.#isPolling = true;
    const { clock, signal } = this.#options;
    let lookedAt = clock.monotonic();
    while (this.#waiters.size > 0 && !signal.aborted) {
      const waitMs = lookedAt + this.#intervalMs() - clock.monotonic();
      if (waitMs > 0) {
        await pause(waitMs, clock, AbortSignal.any([signal, this.#changed.signal]));
        continue; // another caller may be waiting by now
      }
      await this.#lookAtWaiting();
      lookedAt = clock.monotonic();
    }
    this.#isPolling = false;
  }

  /** Interval of the checks of awaited instances, milliseconds. */
  #intervalMs(): number {
    const { pollMs } = this.#options;
    const hurries = [...this.#waiters.values()].some((all) =>
      [...all].some(({ isPatient }) => !isPatient),
    );
    if (hurries) return pollMs;
    return this.#isLooking ? longestPauseMs : patience * pollMs;
  }

  #wake(): void {
    this.#changed.abort();
    this.#changed = new AbortController();
  }

  async #lookAtWaiting(): Promise<void> {
    const { instances, logger, signal } = this.#options;
    try {
      // One call: lookups at the same moment share a batch.
      await Promise.all(
        [...this.#waiters.keys()].map(async (id) => this.#show(id, await instances.get(id))),
      );
    } catch (err) {
      if (!signal.aborted) logger.warn("Could not look at the instances of the cloud", { err });
    }
  }

  #show(id: string, seen: SeenInstance | undefined): void {
    for (const waiter of this.#waiters.get(id) ?? [])
      if (waiter.see(seen)) this.#remove(id, waiter);
  }

  async #look(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    const { instances, clock, logger, endsMs, signal } = this.#options;
    while (this.#ended.size > 0 && (await pause(endsMs, clock, signal))) {
      try {
        const waiting = [...this.#waiters.keys()]; // before the call, which may miss instances launched during it
        const all = new Map((await instances.all()).map((each) => [each.instance.id, each]));
        for (const id of waiting) this.#show(id, all.get(id));
      } catch (err) {
        if (!signal.aborted) logger.warn("Could not list the instances of the cloud", { err });
      }
    }
    this.#isLooking = false;
    this.#wake();
  }
}
