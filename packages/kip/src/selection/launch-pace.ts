import { untilAborted, type Clock } from "@kip/base";
import { CloudError, type LaunchType } from "@kip/cloud";
import type { DumpedLaunches } from "../inspect/node-dump.ts";

/** A launch that waits its turn. */
export interface PacedLaunch {
  readonly instanceType: string;
  readonly launchType: LaunchType;
  /** Milliseconds since the Unix epoch. When launches are slowed down, the oldest one goes first. */
  readonly createdAt: number;
  /**
   * Called when the launch has to wait because the cloud refused it, or a similar one, with this error. `inMs` is the minimum
   * time until it is made, milliseconds.
   */
  readonly onWait: (error: CloudError, inMs: number) => void;
  /** Aborts when the caller has another choice than to wait for a quota: `CLOUD_QUOTA` is left to it then. @default never */
  readonly other?: AbortSignal | undefined;
  /** Aborts when the launch would be refused. One that has yet to wait, or waits its turn, then fails with the reason. @default never */
  readonly futile?: AbortSignal | undefined;
  readonly signal: AbortSignal;
}

interface PaceLimits {
  readonly initialMs: number;
  readonly maxMs: number;
  /** Number of launches that a success lets start at once while the pause is longer than `initialMs`. */
  readonly perSuccess: number;
}

/** Calls are refused until the rate has dropped, so a short pause is enough. */
const throttled: PaceLimits = { initialMs: 1000, maxMs: 60_000, perSuccess: 0 };
/** Number of launches that a success lets start at once: more than one, so that the rate grows while they succeed. */
const growth = 2;
/**
 * A person raises an account's limit, or it has room again when machines end, which kip notices by itself. A raised limit may
 * have room for all launches, so their number doubles with each success.
 */
const overQuota: PaceLimits = { initialMs: 5000, maxMs: 300_000, perSuccess: growth };

/** Errors of launches that the cloud has considered, so it did not throttle them. */
const considered = [
  "CLOUD_QUOTA",
  "CLOUD_NO_CAPACITY",
  "CLOUD_INVALID_REQUEST",
  "CLOUD_NOT_FOUND",
] as const;

/**
 * Limits the rate of all pods' launches as the cloud requests. `CLOUD_THROTTLED` slows down all of them. `CLOUD_QUOTA` slows
 * down those of the same instance type and launch type, because quotas are per family and market. A launch that was refused
 * with one of these is repeated when it is its turn. Other errors are thrown, and use up no turn of a quota.
 */
export class LaunchPace {
  readonly #clock: Clock;
  readonly #all: Pace;
  readonly #ofKind = new Map<string, Pace>();

  constructor({ clock }: { readonly clock: Clock }) {
    this.#clock = clock;
    this.#all = new Pace(clock, throttled);
  }

  /**
   * Makes the launch, repeatedly if necessary. It must be safe to repeat.
   *
   * @throws what the launch throws but for those two errors; `CLOUD_QUOTA` once `other` has aborted; the reason of `futile` or
   * `signal`
   */
  async run<T>(asked: PacedLaunch, launch: () => Promise<T>): Promise<T> {
    const key = `${asked.instanceType}/${asked.launchType}`;
    const { futile, signal } = asked;
    const inTurn = futile ? { ...asked, signal: AbortSignal.any([signal, futile]) } : asked;
    for (;;) {
      inTurn.signal.throwIfAborted();
      const kind = this.#ofKind.get(key);
      await kind?.turnUnless(inTurn);
      const takenAt = this.#clock.monotonic();
      let startedAt = -1;
      try {
        await this.#all.turn(inTurn);
        startedAt = this.#clock.monotonic();
        const result = await launch();
        this.#all.accepted(startedAt);
        kind?.accepted(startedAt);
        if (kind?.isOpen === true) this.#ofKind.delete(key);
        return result;
      } catch (error) {
        const isQuota = CloudError.is(error, "CLOUD_QUOTA");
        if (!isQuota) kind?.passed(takenAt);
        if (CloudError.is(error, ...considered)) this.#all.accepted(startedAt);
        if (CloudError.is(error, "CLOUD_THROTTLED")) this.#all.refused(error, startedAt);
        else if (isQuota && asked.other?.aborted !== true)
          this.#kind(key).refused(error, startedAt);
        else throw error;
      }
    }
  }

  /** The queues of launches. The one for all machines comes first. */
  dump(): readonly DumpedLaunches[] {
    const kinds = [...this.#ofKind].map(([of, pace]) => ({ of, ...pace.dump() }));
    return [{ of: "all", ...this.#all.dump() }, ...kinds];
  }

  /** Call this when a machine has ended, because a launch over its quota may now succeed. */
  freed(): void {
    for (const pace of this.#ofKind.values()) pace.now();
  }

  #kind(key: string): Pace {
    const pace = this.#ofKind.get(key) ?? new Pace(this.#clock, overQuota);
    this.#ofKind.set(key, pace);
    return pace;
  }
}

interface Waiter {
  readonly createdAt: number;
  readonly onWait: PacedLaunch["onWait"];
  readonly wake: () => void;
}

/**
 * The time between two launches. There is none until one is refused. It doubles with each refusal, and halves with each success
 * until it is short. Then each success lets two more launches start, until none waits. If the cloud requests a longer time, that
 * applies. Launches that a success lets start do not wait.
 */
class Pace {
  readonly #clock: Clock;
  readonly #limits: PaceLimits;
  readonly #waiters = new Set<Waiter>();
  #delayMs = 0;
  #openAt = 0;
  /** Number of launches that may start before `#openAt`. */
  #free = 0;
  #refusedAt = -1;
  #reason: CloudError | undefined;
  #timer: AbortController | undefined;

  constructor(clock: Clock, limits: PaceLimits) {
    this.#clock = clock;
    this.#limits = limits;
  }

  /** Whether launches are made at once. */
  get isOpen(): boolean {
    return this.#delayMs === 0 && this.#waiters.size === 0;
  }

  dump(): Omit<DumpedLaunches, "of"> {
    const inMs = Math.round(Math.max(0, this.#openAt - this.#clock.monotonic()));
    return { waiting: this.#waiters.size, delayMs: this.#delayMs, inMs };
  }

  /** Resolves when a launch may be made. @throws the signal's reason */
  async turn({ createdAt, onWait, signal }: PacedLaunch): Promise<void> {
    if (this.isOpen) return;
    const turn = Promise.withResolvers<void>();
    const waiter: Waiter = { createdAt, onWait, wake: turn.resolve };
    this.#waiters.add(waiter);
    this.#look();
    if (this.#waiters.has(waiter)) this.#report(waiter);
    try {
      await untilAborted(turn.promise, signal);
    } finally {
      this.#waiters.delete(waiter);
      this.#look();
    }
  }

  /**
   * Resolves when a launch may be made.
   *
   * @throws the last refusal, if the launch would have to wait and the caller has another choice; the signal's reason
   */
  async turnUnless(asked: PacedLaunch): Promise<void> {
    const { other, signal } = asked;
    const isEarly = this.#free === 0 && this.#clock.monotonic() < this.#openAt;
    const isPaused = this.#waiters.size > 0 || isEarly;
    if (!other || (other.aborted && !isPaused)) return await this.turn(asked);
    try {
      other.throwIfAborted();
      await this.turn({ ...asked, signal: AbortSignal.any([signal, other]) });
    } catch (error) {
      signal.throwIfAborted();
      throw this.#reason ?? error;
    }
  }

  refused(error: CloudError, startedAt: number): void {
    const now = this.#clock.monotonic();
    // Refusals of launches that began before the last refusal count as one. Thousands may be in progress together.
    const isNew = startedAt > this.#refusedAt || this.#delayMs === 0;
    if (isNew) {
      const { initialMs, maxMs } = this.#limits;
      this.#delayMs = Math.min(maxMs, Math.max(initialMs, this.#delayMs * 2));
      this.#refusedAt = now;
    }
    this.#reason = error;
    this.#free = 0;
    this.#openAt = Math.max(this.#openAt, now + Math.max(this.#delayMs, error.retryAfterMs ?? 0));
    this.#look();
    if (isNew) for (const waiter of this.#waiters) this.#report(waiter);
  }

  accepted(startedAt: number): void {
    if (this.#delayMs === 0 || startedAt <= this.#refusedAt) return;
    const { initialMs, perSuccess } = this.#limits;
    const halfMs = this.#delayMs / 2;
    const isShort = halfMs < initialMs;
    this.#free += isShort ? growth : perSuccess;
    // If thousands that wait started at once, the cloud would refuse most of them again.
    const mayAllStart = isShort && this.#waiters.size <= this.#free;
    this.#delayMs = mayAllStart ? 0 : Math.max(halfMs, initialMs / 2);
    if (mayAllStart) this.#free = 0;
    this.#openAt = Math.min(this.#openAt, this.#clock.monotonic() + this.#delayMs);
    this.#look();
  }

  /** To be called when a launch whose turn this was did not show whether another one would be refused: it is the next one's turn. */
  passed(takenAt: number): void {
    if (takenAt >= this.#refusedAt) this.now();
  }

  /** Lets the next launch start at once. */
  now(): void {
    this.#openAt = Math.min(this.#openAt, this.#clock.monotonic());
    this.#look();
  }

  /** Wakes the waiters whose turn it is, the oldest first, and sets the timer for the next one. */
  #look(): void {
    const now = this.#clock.monotonic();
    // Only sort when one may continue, because thousands may come and go in between.
    const mayStart = (): boolean => this.#openAt <= now || this.#free > 0;
    const byAge = mayStart() ? [...this.#waiters].sort((a, b) => a.createdAt - b.createdAt) : [];
    for (const waiter of byAge) {
      if (!mayStart()) break;
      if (this.#openAt <= now) this.#openAt = now + this.#delayMs;
      else this.#free--;
      this.#waiters.delete(waiter);
      waiter.wake();
    }
    this.#timer?.abort();
    if (this.#waiters.size === 0) return;
    this.#timer = new AbortController();
    this.#clock.sleep(Math.max(0, this.#openAt - now), this.#timer.signal).then(
      () => this.#look(),
      () => {}, // a newer timer has replaced it
    );
  }

  #report({ onWait }: Waiter): void {
    if (this.#reason) onWait(this.#reason, Math.max(0, this.#openAt - this.#clock.monotonic()));
  }
}
