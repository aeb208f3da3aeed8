import { untilAborted, type Clock } from "@kip/base";
import type { CapacityScope, LaunchType } from "@kip/cloud";

/** Where a machine is asked for. */
export interface Placement {
  readonly instanceType: string;
  readonly zone: string;
  readonly launchType: LaunchType;
}

/** Machines that are short. */
export interface ShortScope extends CapacityScope {
  /** Whether the account's quota is reached: pods without another choice ask all the same. @default false */
  readonly isQuota?: boolean | undefined;
}

/** A launch that the cloud had no capacity for. */
export interface RefusedLaunch {
  readonly podUid: string;
  readonly placement: Placement;
  /** Which machines have no capacity, as the cloud reports it; a field that it leaves out stands for any value. */
  readonly scope: ShortScope;
  /** When the cloud wants to be asked again, milliseconds. @default it did not say */
  readonly retryAfterMs?: number | undefined;
}

/** A pod for which nothing is left. */
export interface ShortPod {
  readonly podUid: string;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  /** Shortages whose end would let the pod start. */
  readonly scopes: readonly ShortScope[];
}

/** Options of {@link Shortages}. */
export interface ShortagesOptions {
  readonly clock: Clock;
  /** How long a first refusal is remembered, milliseconds. @default 30,000 */
  readonly firstMs?: number | undefined;
  /** The longest that one is remembered, milliseconds; each refusal in a row doubles the time until then. @default 300,000 */
  readonly longestMs?: number | undefined;
  /** How many are remembered; the oldest is forgotten first. @default 256 */
  readonly limit?: number | undefined;
}

interface Shortage {
  readonly scope: ShortScope;
  /** Refusals in a row. */
  refusals: number;
  /** Monotonic milliseconds. */
  endsAt: number;
  /** The pod that has its turn to try whether the shortage has ended. */
  trialBy?: string | undefined;
  /** There may be room since that pod began to try: if it is refused, the next one tries at once. */
  hasNews?: boolean | undefined;
}

interface Waiter {
  readonly podUid: string;
  readonly createdAt: number;
  readonly keys: ReadonlySet<string>;
  readonly wake: () => void;
}

/** The shortest time that a refusal is remembered, milliseconds, whatever the cloud says. */
const shortestMs = 1000;
/** How long one pod has to try whether a shortage has ended before the next one does, milliseconds. */
const trialMs = 60_000;

/**
 * What the cloud has no capacity of now, as launches have found out; shared by all pods. It is kept in memory alone: after a
 * restart of kip one launch finds it out again.
 *
 * Invariants:
 * - When the time of a shortage has passed and pods wait for it, one of them tries, the one that was created first; the others
 *   wait for its outcome. A launch that is accepted ends the shortage for all.
 * - Nothing is polled: without waiters there is no timer.
 */
export class Shortages {
  readonly #clock: Clock;
  readonly #firstMs: number;
  readonly #longestMs: number;
  readonly #limit: number;
  readonly #known = new Map<string, Shortage>();
  readonly #waiters = new Set<Waiter>();
  #timer: { readonly atMs: number; readonly abort: AbortController } | undefined;

  constructor({ clock, firstMs = 30_000, longestMs = 300_000, limit = 256 }: ShortagesOptions) {
    this.#clock = clock;
    this.#firstMs = firstMs;
    this.#longestMs = longestMs;
    this.#limit = limit;
  }

  /** Machines not to ask for now, without the shortages that this pod has its turn to try. */
  inForce(podUid: string): readonly ShortScope[] {
    const now = this.#clock.monotonic();
    return [...this.#known.values()]
      .filter(({ endsAt, trialBy }) => endsAt > now && trialBy !== podUid)
      .map(({ scope }) => scope);
  }

  /** Remembers that the cloud refused a launch. Refusals of launches that were under way at the same time count once. */
  refused({ podUid, placement, scope, retryAfterMs }: RefusedLaunch): void {
    // A driver that names something else must not have the same launch tried again at once.
    const { instanceType, launchType } = placement;
    const named = covers(scope, placement) ? scope : { instanceType, launchType };
    const key = keyOf(named);
    this.#renew(
      podUid,
      { refusals: 0, endsAt: 0, ...this.#known.get(key), scope: named },
      retryAfterMs,
    );
    for (const shortage of this.#known.values())
      if (shortage.trialBy === podUid && covers(shortage.scope, placement))
        this.#renew(podUid, shortage, retryAfterMs);
    const tooMany = Math.max(0, this.#known.size - this.#limit);
    this.#end([...this.#known.keys()].slice(0, tooMany));
  }

  /**
   * The cloud accepted this pod's launch: whatever covered it is over. Room in a quota is for one machine, so the next pod tries
   * alone. What the pod was to try besides is tried by the next one, too.
   */
  accepted(placement: Placement, podUid: string): void {
    const covering = [...this.#known].filter(([, { scope }]) => covers(scope, placement));
    const isTried = ([key, { scope }]: (typeof covering)[number]): boolean =>
      scope.isQuota === true && [...this.#waiters].some(({ keys }) => keys.has(key));
    this.#end(covering.filter((each) => !isTried(each)).map(([key]) => key));
    for (const [, shortage] of covering) shortage.refusals = 0;
    const own = [...this.#known.values()].filter(({ trialBy }) => trialBy === podUid);
    this.#tryNow([...covering.filter(isTried).map(([, shortage]) => shortage), ...own], podUid);
  }

  /** To be called when a machine has ended: whether a quota has room again may be tried now. */
  freed(): void {
    this.#tryNow([...this.#known.values()].filter(({ scope }) => scope.isQuota === true));
  }

  /** Milliseconds until the first of these shortages is tried again. */
  endsIn(scopes: readonly ShortScope[]): number {
    const now = this.#clock.monotonic();
    const ends = scopes.map((scope) => this.#known.get(keyOf(scope))?.endsAt ?? now);
    return Math.max(0, Math.min(...ends) - now);
  }

  /**
   * Resolves when one of the pod's shortages has ended, or the pod is to try whether it has.
   *
   * @throws the signal's reason
   */
  async untilTurn({ podUid, createdAt, scopes }: ShortPod, signal: AbortSignal): Promise<void> {
    const turn = Promise.withResolvers<void>();
    const keys = new Set(scopes.map(keyOf));
    const waiter: Waiter = { podUid, createdAt, keys, wake: turn.resolve };
    this.#waiters.add(waiter);
    if ([...keys].some((key) => !this.#known.has(key))) this.#wake(waiter);
    else this.#lookIn(this.endsIn(scopes));
    try {
      await untilAborted(turn.promise, signal);
    } finally {
      this.#waiters.delete(waiter);
      if (this.#waiters.size === 0) this.#stopTimer();
    }
  }

  /** Forgets shortages, and wakes the pods that wait for one of them. Costs nothing if there are none. */
  #end(keys: readonly string[]): void {
    if (keys.length === 0) return;
    for (const key of keys) this.#known.delete(key);
    for (const waiter of this.#byAge())
      if (keys.some((key) => waiter.keys.has(key))) this.#wake(waiter);
  }

  #renew(podUid: string, shortage: Shortage, retryAfterMs: number | undefined): void {
    const now = this.#clock.monotonic();
    if (shortage.endsAt > now && shortage.trialBy !== podUid) return;
    const refusals = shortage.refusals + 1;
    const usualMs = Math.min(this.#longestMs, this.#firstMs * 2 ** Math.min(refusals - 1, 32));
    const endsAt =
      shortage.hasNews === true ? now : now + Math.max(shortestMs, retryAfterMs ?? usualMs);
    const key = keyOf(shortage.scope);
    this.#known.delete(key); // the newest is last
    this.#known.set(key, { scope: shortage.scope, refusals, endsAt });
    if (this.#waiters.size > 0) this.#lookIn(endsAt - now);
  }

  /** Lets the next pod try. One that is trying now, another one than this, keeps its turn. */
  #tryNow(shortages: readonly Shortage[], podUid?: string): void {
    if (shortages.length === 0) return;
    const now = this.#clock.monotonic();
    for (const shortage of shortages) {
      const { trialBy, endsAt } = shortage;
      if (trialBy !== undefined && trialBy !== podUid && endsAt > now) shortage.hasNews = true;
      else shortage.endsAt = Math.min(endsAt, now);
    }
    this.#look();
  }

  #byAge(): readonly Waiter[] {
    return [...this.#waiters].sort((a, b) => a.createdAt - b.createdAt);
  }

  /** For each shortage whose time has passed, wakes the oldest pod that waits for it; and sets the timer for the next one. */
  #look(): void {
    const now = this.#clock.monotonic();
    const byAge = this.#byAge();
    for (const [key, shortage] of this.#known) {
      if (shortage.endsAt > now) continue;
      const first = byAge.find((each) => this.#waiters.has(each) && each.keys.has(key));
      if (!first) continue;
      shortage.trialBy = first.podUid;
      shortage.hasNews = false;
      shortage.endsAt = now + trialMs;
      this.#wake(first);
    }
    // No pod waits for one whose time has passed.
    const ends = [...this.#known.values()].map(({ endsAt }) => endsAt).filter((at) => at > now);
    if (this.#waiters.size > 0 && ends.length > 0) this.#lookIn(Math.min(...ends) - now);
  }

  #wake(waiter: Waiter): void {
    this.#waiters.delete(waiter);
    waiter.wake();
  }

  /** Looks after this time, or before: each pod that begins to wait asks for it, and is not compared with the others for that. */
  #lookIn(ms: number): void {
    const atMs = this.#clock.monotonic() + ms;
    if (this.#timer && this.#timer.atMs <= atMs) return;
    this.#stopTimer();
    const timer = { atMs, abort: new AbortController() };
    this.#timer = timer;
    this.#clock.sleep(ms, timer.abort.signal).then(
      () => {
        if (this.#timer === timer) this.#timer = undefined;
        this.#look();
      },
      () => {}, // a newer timer has its place
    );
  }

  #stopTimer(): void {
    this.#timer?.abort.abort();
    this.#timer = undefined;
  }
}

/** Whether a shortage with this scope covers that machine. */
export function covers(scope: CapacityScope, placement: Placement): boolean {
  return (
    (scope.instanceType ?? placement.instanceType) === placement.instanceType &&
    (scope.zone ?? placement.zone) === placement.zone &&
    (scope.launchType ?? placement.launchType) === placement.launchType
  );
}

/** A scope as text for messages: `type local.small, spot`. */
export function describeScope({ instanceType, zone, launchType }: CapacityScope): string {
  const parts = [
    instanceType === undefined ? [] : `type ${instanceType}`,
    zone === undefined ? [] : `zone ${zone}`,
    launchType ?? [],
  ].flat();
  return parts.length === 0 ? "any machine" : parts.join(", ");
}

function keyOf({ instanceType, zone, launchType, isQuota }: ShortScope): string {
  return JSON.stringify([instanceType, zone, launchType, isQuota]);
}
