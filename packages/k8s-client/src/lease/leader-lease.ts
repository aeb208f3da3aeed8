import { backoffDelay, pause, type Clock, type Logger } from "@kip/base";
import type { Lease } from "@kip/k8s-types";
import { ignoreNotFound, K8sError, isNotFound } from "../errors.ts";
import type { ApiClient, KubeObject, RequestOptions } from "../client/api-client.ts";
import { createInformer } from "../watch/informer.ts";
import { paths } from "../client/paths.ts";
import { microTime } from "../client/wire-time.ts";

/** Options of {@link createLeaderLease}. */
export interface LeaderLeaseOptions {
  readonly client: ApiClient;
  readonly namespace: string;
  readonly name: string;
  /** `spec.holderIdentity`. It must differ from those of other processes and of earlier runs of this one. */
  readonly identity: string;
  /** How long after this process's last renewal no other process can lead, whole seconds in milliseconds. */
  readonly durationMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** A Lease that at most one of several processes holds. */
export interface LeaderLease {
  /** Resolves when this process leads. @throws the signal's reason */
  acquire(signal: AbortSignal): Promise<LeaderTerm>;
}

/** A period in which this process leads. */
export interface LeaderTerm {
  /** `spec.leaseTransitions`, which increases with each change of the leader. */
  readonly number: number;
  /**
   * Whether no other process can lead yet. Call this before each action. It becomes false a third of the duration before
   * another process may take over, even if this process was stopped or its machine suspended in the meantime.
   */
  isHeld(): boolean;
  /** Aborts when the lease was lost or could not be renewed in time. */
  readonly ended: AbortSignal;
  /**
   * Stops renewing. Never throws.
   *
   * @param handOver true to let another process lead at once, false to let the lease expire
   */
  release(handOver: boolean): Promise<void>;
}

/** Share of the duration after which a leader that could not renew stops. The rest is for requests under way. */
const heldShare = 2 / 3;
const renewalsPerDuration = 5;
const backoff = { initialMs: 200, maxMs: 5000 };

/** A point in time on both clocks of this machine. */
interface Moment {
  readonly monotonicMs: number;
  readonly wallMs: number;
}

/**
 * Leader election with one Lease.
 *
 * Clocks of two machines are never compared. A candidate takes over when the lease has not changed for its whole duration on
 * the candidate's clock. The leader stops earlier, counted from before it sent its last renewal. Writes carry the version that
 * they are based on.
 *
 * The leader uses its monotonic clock and its time of day, and takes the longer of the two durations. Linux' monotonic clock,
 * the only one that client-go uses, stops while the machine is suspended. The time of day is correct again after waking up. If
 * the time of day is set forward by more than the duration, the term ends early, which is safe. Setting it back has no effect.
 * A virtual machine that its host has paused may wake up with both clocks behind. Until its time is corrected, it considers
 * itself the leader, and only the versions of its writes stop it.
 */
export function createLeaderLease(options: LeaderLeaseOptions): LeaderLease {
  return { acquire: (signal) => new Candidate(options, signal).acquire() };
}

class Candidate {
  readonly #options: LeaderLeaseOptions;
  readonly #signal: AbortSignal;
  #changed = new AbortController();
  #seen: { readonly version: string; readonly at: number } | undefined;

  constructor(options: LeaderLeaseOptions, signal: AbortSignal) {
    this.#options = options;
    this.#signal = signal;
  }

  async acquire(): Promise<LeaderTerm> {
    const { client, namespace, name, clock, logger } = this.#options;
    const done = new AbortController();
    createInformer<Lease>({
      client,
      path: paths.leases(namespace),
      query: { fieldSelector: `metadata.name=${name}` },
      onEvent: () => this.#changed.abort(),
      clock,
      logger,
      signal: AbortSignal.any([this.#signal, done.signal]),
    });
    try {
      for (let failures = 0; ;) {
        this.#signal.throwIfAborted();
        this.#changed = new AbortController();
        let pauseMs: number;
        try {
          const term = await this.#tryToAcquire();
          if (typeof term !== "number") return term;
          pauseMs = term;
          failures = 0;
        } catch (error) {
          this.#signal.throwIfAborted();
          pauseMs = backoffDelay(failures++, backoff, error);
          if (!K8sError.is(error, "K8S_CONFLICT", "K8S_ALREADY_EXISTS"))
            logger.warn("Could not acquire the lease", { lease: name, err: error });
        }
        const wake = AbortSignal.any([this.#signal, this.#changed.signal]);
        await pause(pauseMs, clock, wake); // shorter if the lease changed or the caller stopped
      }
    } finally {
      done.abort();
    }
  }

  /** Takes the lease if it is free. Otherwise returns the minimum time for which it is still held, milliseconds. */
  async #tryToAcquire(): Promise<LeaderTerm | number> {
    const { client, namespace, name, clock, durationMs } = this.#options;
    const startedAt = momentOf(clock);
    const lease = await this.#read();
    if (!lease) {
      const body = this.#claim({ metadata: { name, namespace } }, 0);
      const made = await client.create<Lease & KubeObject>(
        paths.leases(namespace),
        body,
        this.#request,
      );
      return new Term(this.#options, made, startedAt);
    }
    const version = lease.metadata.resourceVersion;
    // Counted from when the lease was seen, not requested: it may have been renewed in between.
    const seenAt = clock.monotonic();
    if (this.#seen?.version !== version) this.#seen = { version, at: seenAt };
    const heldMs = (lease.spec?.leaseDurationSeconds ?? durationMs / 1000) * 1000;
    const isFree = (lease.spec?.holderIdentity ?? "") === "";
    const remainingMs = this.#seen.at + heldMs - seenAt;
    if (!isFree && remainingMs > 0) return remainingMs;
    const body = this.#claim(lease, (lease.spec?.leaseTransitions ?? 0) + 1);
    const taken = await client.replace<Lease & KubeObject>(
      paths.leases(namespace, name),
      body,
      this.#request,
    );
    return new Term(this.#options, taken, startedAt);
  }

  async #read(): Promise<(Lease & KubeObject) | undefined> {
    const { client, namespace, name } = this.#options;
    return await ignoreNotFound(
      client.get<Lease & KubeObject>(paths.leases(namespace, name), this.#request),
    );
  }

  #claim(from: Lease, transitions: number): Lease {
    const { clock, identity, durationMs } = this.#options;
    const now = microTime(clock.now());
    return {
      apiVersion: "coordination.k8s.io/v1",
      kind: "Lease",
      metadata: { ...from.metadata },
      spec: {
        holderIdentity: identity,
        leaseDurationSeconds: Math.max(1, Math.ceil(durationMs / 1000)),
        acquireTime: now,
        renewTime: now,
        leaseTransitions: transitions,
      },
    };
  }

  get #request(): RequestOptions {
    return { signal: this.#signal, timeoutMs: this.#options.durationMs, isUrgent: true };
  }
}

class Term implements LeaderTerm {
  readonly number: number;
  readonly #options: LeaderLeaseOptions;
  readonly #end = new AbortController();
  /** Ends the waits and requests of this term. */
  readonly #stop = new AbortController();
  readonly #renewals: Promise<void>;
  #lease: Lease;
  /** When the last successful renewal was sent. */
  #renewedAt: Moment;

  constructor(options: LeaderLeaseOptions, lease: Lease, sentAt: Moment) {
    this.#options = options;
    this.#lease = lease;
    this.number = lease.spec?.leaseTransitions ?? 0;
    this.#renewedAt = sentAt;
    this.#renewals = this.#keepRenewed();
    void this.#watchdog();
  }

  get ended(): AbortSignal {
    return this.#end.signal;
  }

  isHeld(): boolean {
    return !this.#end.signal.aborted && this.#remainingMs() > 0;
  }

  #remainingMs(): number {
    const { clock, durationMs } = this.#options;
    const { monotonicMs, wallMs } = this.#renewedAt;
    const elapsedMs = Math.max(clock.monotonic() - monotonicMs, clock.now() - wallMs);
    return durationMs * heldShare - elapsedMs;
  }

  async release(handOver: boolean): Promise<void> {
    const { client, namespace, name, logger, durationMs } = this.#options;
    const wasHeld = this.isHeld();
    this.#lose("it was released");
    await this.#renewals;
    if (!wasHeld || !handOver) return;
    const { spec } = this.#lease;
    const freed = {
      ...this.#lease,
      spec: { ...spec, holderIdentity: "", leaseDurationSeconds: 1 },
    };
    try {
      await client.replace(paths.leases(namespace, name), freed, {
        timeoutMs: durationMs,
        isUrgent: true,
      });
    } catch (error) {
      // The lease expires on its own.
      logger.debug("Could not release the lease", { lease: name, err: error });
    }
  }

  async #watchdog(): Promise<void> {
    const { clock } = this.#options;
    while (!this.#end.signal.aborted) {
      const remainingMs = this.#remainingMs();
      if (remainingMs <= 0) return this.#lose("it could not be renewed in time");
      await pause(remainingMs, clock, this.#stop.signal);
    }
  }

  async #keepRenewed(): Promise<void> {
    const { clock, durationMs, logger, name } = this.#options;
    const pauseMs = durationMs / renewalsPerDuration;
    while (!this.#end.signal.aborted) {
      await pause(pauseMs, clock, this.#stop.signal);
      // The watchdog's timer stops while the machine is suspended.
      if (!this.isHeld()) return this.#lose("it could not be renewed in time");
      try {
        await this.#renew();
      } catch (error) {
        if (this.#end.signal.aborted) return;
        if (K8sError.is(error, "K8S_CONFLICT", "K8S_NOT_FOUND")) await this.#checkHolder();
        else logger.warn("Could not renew the lease", { lease: name, err: error });
      }
    }
  }

  async #renew(): Promise<void> {
    const { client, namespace, name, clock, durationMs } = this.#options;
    const sentAt = momentOf(clock);
    const renewed = {
      ...this.#lease,
      spec: { ...this.#lease.spec, renewTime: microTime(clock.now()) },
    };
    this.#lease = await client.replace<Lease & KubeObject>(paths.leases(namespace, name), renewed, {
      signal: this.#stop.signal,
      timeoutMs: durationMs / renewalsPerDuration,
      isUrgent: true,
    });
    this.#renewedAt = sentAt;
  }

  /**
   * Called when the lease has changed: by this process's own write whose response was lost, by a label, or by another leader.
   */
  async #checkHolder(): Promise<void> {
    const { client, namespace, name, identity, logger } = this.#options;
    try {
      const lease = await client.get<Lease & KubeObject>(paths.leases(namespace, name), {
        signal: this.#stop.signal,
        isUrgent: true,
      });
      if (lease.spec?.holderIdentity === identity) this.#lease = lease;
      else this.#lose("another process took it");
    } catch (error) {
      if (isNotFound(error)) this.#lose("it was deleted");
      else logger.warn("Could not read the lease", { lease: name, err: error });
    }
  }

  #lose(reason: string): void {
    if (this.#end.signal.aborted) return;
    const { name } = this.#options;
    this.#end.abort(new K8sError("K8S_LEASE_LOST", `Cannot hold lease "${name}": ${reason}`));
    this.#stop.abort();
  }
}

function momentOf(clock: Clock): Moment {
  return { monotonicMs: clock.monotonic(), wallMs: clock.now() };
}
