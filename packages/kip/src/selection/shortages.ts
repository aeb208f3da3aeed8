import { untilAborted, type Clock } from "@kip/base";
import type { CapacityScope, LaunchType } from "@kip/cloud";

/** The requested kind of machine and its zone. */
export interface Placement {
  readonly instanceType: string;
  readonly zone: string;
  readonly launchType: LaunchType;
}

/** Machines without capacity. */
export interface ShortScope extends CapacityScope {
  /** Whether the account's quota is reached. Pods without another choice request a machine all the same. @default false */
  readonly isQuota?: boolean | undefined;
}

/** A launch for which the cloud had no capacity. */
export interface RefusedLaunch {
  readonly podUid: string;
  readonly placement: Placement;
  /** The machines without capacity, as reported by the cloud. A missing field stands for any value. */
  readonly scope: ShortScope;
  /** When the cloud wants to be asked again, milliseconds. @default not specified */
  readonly retryAfterMs?: number | undefined;
}

/** A pod for which no machine is available. */
export interface ShortPod {
  readonly podUid: string;
  /** Milliseconds since the Unix epoch. */
  readonly createdAt: number;
  /** Shortages whose end would let the pod start. Thousands of pods may wait, so they should be few. */
  readonly scopes: readonly ShortScope[];
}

/** Options of {@link Shortages}. */
export interface ShortagesOptions {
  readonly clock: Clock;
  /** How long a first refusal is remembered, milliseconds. @default 30,000 */
  readonly firstMs?: number | undefined;
  /**
   * Maximum time for which a refusal is remembered, milliseconds. Each consecutive refusal doubles the time up to this.
   * @default 300,000
   */
  readonly longestMs?: number | undefined;
  /**
   * How many refusals are remembered. The oldest is forgotten first. If a pod fits more kinds of machines, and there is none of
   * any, it requests them all again without a pause. @default 20,000, more than the largest region has types in all its zones
   */
  readonly limit?: number | undefined;
}

interface Shortage {
  readonly key: string;
  readonly scope: ShortScope;
  /** Number of consecutive refusals. */
  refusals: number;
  /** Monotonic milliseconds. */
  endsAt: number;
  /** The pod whose turn it is to try whether the shortage has ended. */
  trialBy?: string | undefined;
  /** There may be room since that pod began to try: if it is refused, the next one tries at once. */
  hasNews?: boolean | undefined;
}

/** A launch whose result others wait for. */
interface FirstLaunch extends Pick<RefusedLaunch, "podUid" | "placement"> {
  /** How long they wait at most, monotonic milliseconds. */
  readonly until: number;
  readonly accepted: PromiseWithResolvers<boolean>;
}

/** A launch that waits its turn. */
interface WaitingLaunch extends Pick<RefusedLaunch, "podUid" | "placement"> {
  readonly refuse: (scope: ShortScope) => void;
}

interface Waiter {
  readonly podUid: string;
  readonly createdAt: number;
  /** Of the shortages that it waits for, each once. Strings that all waiters share, because there may be many. */
  readonly keys: readonly string[];
  readonly wake: () => void;
}

const scopeFields = ["instanceType", "zone", "launchType"] as const;
/** Minimum time for which a refusal is remembered, milliseconds, whatever the cloud requests. */
const shortestMs = 1000;
/** How many of the waiting pods follow at once when a shortage has ended. There may be room for one machine only. */
const firstFollowers = 10;
/** When twice as many follow, if none was refused meanwhile, milliseconds. */
const followMs = 2000;
/** How long one pod has to try whether a shortage has ended before it is the next pod's turn, milliseconds. */
const trialMs = 60_000;

/**
 * The cloud's current shortages, as found by launches and shared by all pods. They are only in memory: after a restart of kip,
 * one launch finds them again.
 *
 * Invariants:
 * - When the time of a shortage has passed and pods are waiting for it, the oldest pod tries, and the others wait for the
 *   result. A launch that is accepted ends the shortage. The others follow, more and more at a time, until one is refused.
 * - Nothing is polled: without waiters there is no timer.
 */
export class Shortages {
  readonly #clock: Clock;
  readonly #firstMs: number;
  readonly #longestMs: number;
  readonly #limit: number;
  readonly #known = new Map<string, Shortage>();
  readonly #waiters = new Set<Waiter>();
  /** The waiters by key of a shortage that they wait for. Most of the known shortages may have none. */
  readonly #waitersOf = new Map<string, Set<Waiter>>();
  readonly #launches = new Set<WaitingLaunch>();
  /** Of pods that were refused before, one for each kind of machine. */
  readonly #firstLaunches = new Set<FirstLaunch>();
  /** Keys of shortages that ended together while more pods were waiting for them than may follow at once. */
  readonly #ended = new Set<Set<string>>();
  #following = new AbortController();
  #timer: { readonly atMs: number; readonly abort: AbortController } | undefined;

  constructor({ clock, firstMs = 30_000, longestMs = 300_000, limit = 20_000 }: ShortagesOptions) {
    this.#clock = clock;
    this.#firstMs = firstMs;
    this.#longestMs = longestMs;
    this.#limit = limit;
  }

  /** Machines that should not be requested now, except for shortages that this pod may try. */
  inForce(podUid: string): readonly ShortScope[] {
    const now = this.#clock.monotonic();
    return [...this.#known.values()]
      .filter(({ endsAt, trialBy }) => endsAt > now && trialBy !== podUid)
      .map(({ scope }) => scope);
  }

  /**
   * The shortage because of which the cloud would refuse a launch now. None while a pod tries whether it has ended: it may take so
   * long that the next one has the turn. A quota does not count, because a pod without another choice asks all the same.
   */
  shortageOf(placement: Placement): ShortScope | undefined {
    const now = this.#clock.monotonic();
    for (const { scope, endsAt, trialBy } of this.#known.values()) {
      const isShort = endsAt > now && trialBy === undefined && scope.isQuota !== true;
      if (isShort && covers(scope, placement)) return scope;
    }
    return undefined;
  }

  /** Remembers that the cloud refused a launch. Refusals of concurrent launches count once. */
  refused({ podUid, placement, scope, retryAfterMs }: RefusedLaunch): void {
    // If a driver names other machines, the same launch must still not be repeated at once.
    const { instanceType, launchType } = placement;
    const named = covers(scope, placement) ? scope : { instanceType, launchType };
    const key = keyOf(named);
    this.#renew(
      podUid,
      { key, refusals: 0, endsAt: 0, ...this.#known.get(key), scope: named },
      retryAfterMs,
    );
    for (const shortage of this.#known.values())
      if (shortage.trialBy === podUid && includes(named, shortage.scope))
        this.#renew(podUid, shortage, retryAfterMs);
    this.#decide((each) => each.podUid === podUid || covers(named, each.placement), false);
    const tooMany = Math.max(0, this.#known.size - this.#limit);
    this.#end([...this.#known.keys().take(tooMany)]);
  }

  /**
   * The cloud accepted this pod's launch: whatever covered it is over. Room in a quota is for one machine, so the next pod tries
   * alone. What the pod was to try besides is tried by the next one, too.
   */
  accepted(placement: Placement, podUid: string): void {
    this.#decide((each) => covers(placement, each.placement), true);
    this.#decide((each) => each.podUid === podUid, false);
    const covering = [...this.#known].filter(([, { scope }]) => covers(scope, placement));
    const isTried = ([key, { scope }]: (typeof covering)[number]): boolean =>
      scope.isQuota === true && this.#waitersOf.has(key);
    this.#end(covering.filter((each) => !isTried(each)).map(([key]) => key));
    for (const [, shortage] of covering) shortage.refusals = 0;
    const own = [...this.#known.values()].filter(({ trialBy }) => trialBy === podUid);
    this.#tryNow([...covering.filter(isTried).map(([, shortage]) => shortage), ...own], podUid);
  }

  /** To be called when a pod does not use its turn: the next pod tries at once. */
  passed(podUid: string): void {
    this.#decide((each) => each.podUid === podUid, false);
    const own = [...this.#known.values()].filter(({ trialBy }) => trialBy === podUid);
    this.#tryNow(own, podUid);
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
   * Resolves when one of the pod's shortages has ended, or when it is the pod's turn to try.
   *
   * @throws the signal's reason
   */
  async untilTurn({ podUid, createdAt, scopes }: ShortPod, signal: AbortSignal): Promise<void> {
    const turn = Promise.withResolvers<void>();
    const known = scopes.map(keyOf).map((key) => this.#known.get(key)?.key ?? key);
    const keys = [...new Set(known)];
    const waiter: Waiter = { podUid, createdAt, keys, wake: turn.resolve };
    this.#passUnused(waiter);
    this.#add(waiter);
    if (keys.some((key) => !this.#known.has(key))) this.#wake(waiter);
    else this.#lookIn(this.endsIn(scopes));
    try {
      await untilAborted(turn.promise, signal);
    } finally {
      this.#remove(waiter);
      if (this.#waiters.size === 0) this.#stopTimers();
    }
  }

  /**
   * For a pod that was refused, and is to launch another machine: waits while another such pod launches the same one. If many pods
   * that were created together are refused, they do not request each of the next types all at once.
   *
   * @returns whether it may be launched now. Otherwise choose again, because it may have been refused
   * @throws the signal's reason
   */
  async untilFirst(
    { podUid, placement }: Pick<RefusedLaunch, "podUid" | "placement">,
    signal: AbortSignal,
  ): Promise<boolean> {
    const now = this.#clock.monotonic();
    if (this.shortageOf(placement)) return false; // since it was chosen
    const isSame = (each: FirstLaunch): boolean => covers(placement, each.placement);
    const first = [...this.#firstLaunches].find(isSame);
    if (first && first.podUid !== podUid && first.until > now) {
      const done = new AbortController();
      const ends = AbortSignal.any([signal, done.signal]);
      const tooLate = this.#clock.sleep(first.until - now, ends).then(() => false);
      try {
        return await untilAborted(Promise.race([first.accepted.promise, tooLate]), signal);
      } finally {
        done.abort();
      }
    }
    this.#decide((each) => each.podUid === podUid || isSame(each), false);
    const accepted = Promise.withResolvers<boolean>();
    this.#firstLaunches.add({ podUid, placement, until: now + trialMs, accepted });
    return true;
  }

  /** Tells those that wait for these launches whether one was accepted. */
  #decide(concerns: (launch: FirstLaunch) => boolean, isAccepted: boolean): void {
    for (const launch of this.#firstLaunches) {
      if (!concerns(launch)) continue;
      this.#firstLaunches.delete(launch);
      launch.accepted.resolve(isAccepted);
    }
  }

  /**
   * Resolves with the shortage when the cloud refuses the launch of another pod for want of capacity that this one lacks, too.
   *
   * @throws the signal's reason
   */
  async untilShort(
    { podUid, placement }: Pick<RefusedLaunch, "podUid" | "placement">,
    signal: AbortSignal,
  ): Promise<ShortScope> {
    const refusal = Promise.withResolvers<ShortScope>();
    const launch: WaitingLaunch = { podUid, placement, refuse: refusal.resolve };
    this.#launches.add(launch);
    try {
      return await untilAborted(refusal.promise, signal);
    } finally {
      this.#launches.delete(launch);
    }
  }

  /** Forgets shortages, and wakes the pods that wait for one of them, little by little. Costs nothing without waiters. */
  #end(keys: readonly string[]): void {
    if (keys.length === 0) return;
    for (const key of keys) this.#known.delete(key);
    this.#follow(new Set(keys), firstFollowers);
    if (this.#waiters.size > 0) this.#lookIn(0); // narrower ones may be tried now
  }

  /** Wakes the oldest pods that wait for one of these shortages, and the others later if none of them is refused. */
  #follow(ended: Set<string>, count: number): void {
    const all = new Set([...ended].flatMap((key) => [...(this.#waitersOf.get(key) ?? [])]));
    const followers = [...all].sort(byAge);
    for (const waiter of followers.slice(0, count)) this.#wake(waiter);
    this.#ended.delete(ended);
    if (followers.length <= count) return;
    this.#ended.add(ended);
    this.#clock.sleep(followMs, this.#following.signal).then(
      () => this.#follow(ended, 2 * count),
      () => {}, // nothing waits any longer
    );
  }

  #renew(podUid: string, shortage: Shortage, retryAfterMs: number | undefined): void {
    const now = this.#clock.monotonic();
    if (shortage.endsAt > now && shortage.trialBy !== podUid) return;
    const refusals = shortage.refusals + 1;
    const usualMs = Math.min(this.#longestMs, this.#firstMs * 2 ** Math.min(refusals - 1, 32));
    const endsAt =
      shortage.hasNews === true ? now : now + Math.max(shortestMs, retryAfterMs ?? usualMs);
    const { key, scope } = shortage;
    this.#known.delete(key); // the newest is last
    this.#known.set(key, { key, scope, refusals, endsAt });
    for (const ended of this.#ended) ended.delete(key);
    if (this.#waitersOf.has(key)) this.#lookIn(endsAt - now);
    // A pod without another choice asks all the same above a quota.
    if (scope.isQuota === true) return;
    for (const launch of this.#launches)
      if (launch.podUid !== podUid && covers(scope, launch.placement)) launch.refuse(scope);
  }

  /**
   * Passes the turns of a pod that has no machine to request now. It keeps one if it waits for another shortage of these machines
   * that another pod tries: both would pass their turns to each other without end.
   */
  #passUnused({ podUid, keys }: Waiter): void {
    const now = this.#clock.monotonic();
    const trials = [...this.#known.values()].filter((each) => each.trialBy && each.endsAt > now);
    const others = trials.filter(({ key, trialBy }) => trialBy !== podUid && keys.includes(key));
    const isUnused = ({ trialBy, scope }: Shortage): boolean =>
      trialBy === podUid && !others.some((other) => overlap(other.scope, scope));
    this.#tryNow(trials.filter(isUnused), podUid);
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

  /**
   * For each shortage whose time has passed, wakes the oldest pod that waits for it. Of shortages of the same machine, one pod
   * tries all: if each was tried by another pod, none could request the machine. Sets the timer for the next one.
   */
  #look(): void {
    const now = this.#clock.monotonic();
    let nextAt = Infinity;
    const trials: { readonly by: Waiter; readonly scope: ShortScope }[] = [];
    for (const [key, shortage] of this.#known) {
      const waiters = this.#waitersOf.get(key);
      if (!waiters) continue;
      if (shortage.endsAt > now) {
        nextAt = Math.min(nextAt, shortage.endsAt);
        continue;
      }
      const { scope } = shortage;
      const wider = this.#widerThan(scope, now);
      if (wider) {
        nextAt = Math.min(nextAt, wider.endsAt);
        continue;
      }
      const other = trials.find((each) => overlap(each.scope, scope))?.by;
      const first = other ?? [...waiters].reduce((a, b) => (byAge(b, a) < 0 ? b : a));
      shortage.trialBy = first.podUid;
      shortage.hasNews = false;
      shortage.endsAt = now + trialMs;
      nextAt = Math.min(nextAt, shortage.endsAt);
      trials.push({ by: first, scope });
      if (!other) this.#wake(first);
    }
    if (this.#waiters.size > 0 && nextAt < Infinity) this.#lookIn(nextAt - now);
  }

  /** A shortage, in force, of all these machines and others. A turn to try these machines could not be used. */
  #widerThan({ instanceType, zone, launchType, isQuota }: ShortScope, now: number) {
    if (isQuota === true) return undefined;
    for (const type of new Set([instanceType, undefined]))
      for (const place of new Set([zone, undefined]))
        for (const market of new Set([launchType, undefined])) {
          const key = keyOf({ instanceType: type, zone: place, launchType: market });
          const known = this.#known.get(key);
          if (known && known.endsAt > now && known.trialBy === undefined) return known;
        }
    return undefined;
  }

  #wake(waiter: Waiter): void {
    this.#remove(waiter);
    waiter.wake();
  }

  #add(waiter: Waiter): void {
    this.#waiters.add(waiter);
    for (const key of waiter.keys)
      this.#waitersOf.set(key, (this.#waitersOf.get(key) ?? new Set()).add(waiter));
  }

  #remove(waiter: Waiter): void {
    if (!this.#waiters.delete(waiter)) return;
    for (const key of waiter.keys) {
      const waiters = this.#waitersOf.get(key);
      waiters?.delete(waiter);
      if (waiters?.size === 0) this.#waitersOf.delete(key);
    }
  }

  /**
   * Calls `#look` after this time or earlier. Each pod that starts to wait calls this, which avoids comparing it with the
   * others.
   */
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
      () => {}, // a newer timer has replaced it
    );
  }

  #stopTimers(): void {
    this.#stopTimer();
    if (this.#ended.size === 0) return;
    this.#ended.clear();
    this.#following.abort();
    this.#following = new AbortController();
  }

  #stopTimer(): void {
    this.#timer?.abort.abort();
    this.#timer = undefined;
  }
}

/** Whether a shortage with this scope covers the machine. */
export function covers(scope: CapacityScope, placement: Placement): boolean {
  return (
    (scope.instanceType ?? placement.instanceType) === placement.instanceType &&
    (scope.zone ?? placement.zone) === placement.zone &&
    (scope.launchType ?? placement.launchType) === placement.launchType
  );
}

/** The oldest first. Of pods that were created together, it is always the same one, so that it gets each turn that it needs. */
function byAge(a: Waiter, b: Waiter): number {
  return a.createdAt - b.createdAt || (a.podUid < b.podUid ? -1 : 1);
}

/** Whether a refusal with the first scope shows that the second shortage has not ended either. */
function includes(refused: ShortScope, other: ShortScope): boolean {
  const isSame = (refused.isQuota === true) === (other.isQuota === true);
  return (
    isSame &&
    scopeFields.every((field) => refused[field] === undefined || refused[field] === other[field])
  );
}

/** Whether a machine may have both shortages. */
function overlap(a: CapacityScope, b: CapacityScope): boolean {
  return scopeFields.every((field) => (a[field] ?? b[field]) === (b[field] ?? a[field]));
}

/** A scope as text for messages, as in `type local.small, spot`. */
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
