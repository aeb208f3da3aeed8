import { every, inParallel, withTimeout, type Clock, type Logger } from "@kip/base";
import { wireTime } from "@kip/k8s-client";
import type { Pod, PodStatus } from "@kip/k8s-types";
import type { PodProvider, ProviderCallbacks, ResolvedPod } from "../pod-provider.ts";
import { goneStatus } from "../pods/fallback-statuses.ts";
import { isFinished } from "../pods/pod-facts.ts";
import { findError } from "../errors.ts";
import { boundOptionalParts } from "../providers/optional-calls.ts";
import type { PolledPodProvider } from "./polled-provider.ts";

/** Options of {@link pollProvider}. */
export interface PollOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  /** Pause between two rounds, milliseconds. @default 5000 */
  readonly intervalMs?: number | undefined;
  /** Most concurrent calls of `status`. @default 16 */
  readonly concurrency?: number | undefined;
  /** Time limit of a call, milliseconds. Afterwards the status counts as unknown. @default 30000 */
  readonly timeoutMs?: number | undefined;
}

/** How long an accepted pod may be missing in the provider's answers, milliseconds. */
const settlingMs = 60_000;

/**
 * Adapts a polled provider to one that reports statuses. Also gets a pod's status right after each `apply`, and at the begin of
 * its removal.
 *
 * @example
 * ```ts
 * import { createLogger, pollProvider, systemClock, type PolledPodProvider } from "@kip/virtual-kubelet";
 *
 * const pods = new Map<string, string>();
 * const polled: PolledPodProvider = {
 *   apply: async ({ pod }) => void pods.set(pod.metadata.uid, pod.metadata.name),
 *   status: async ({ metadata: { uid } }) => (pods.has(uid) ? { phase: "Running" } : undefined),
 *   remove: async ({ metadata: { uid } }) => void pods.delete(uid),
 *   removeUnknown: async (uid) => void pods.delete(uid),
 *   presence: async (uid) => (pods.has(uid) ? "present" : "absent"),
 *   list: async () => [...pods].map(([uid, name]) => ({ uid, name, namespace: "default" })),
 *   nodeFacts: async () => ({ capacity: { pods: "10" }, internalIp: "192.0.2.1" }),
 *   ping: async () => {},
 * };
 * const provider = pollProvider(polled, { clock: systemClock, logger: createLogger() });
 * assert.deepEqual(await provider.list(), []);
 * ```
 */
export function pollProvider(provider: PolledPodProvider, options: PollOptions): PodProvider {
  const poller = new Poller(provider, options);
  return {
    ...boundOptionalParts(provider),
    start: (callbacks) => poller.start(callbacks),
    stop: () => poller.stop(),
    apply: (pod, signal) => poller.apply(pod, signal),
    resume: (pod) => poller.resume(pod),
    remove: (pod, graceSeconds, signal) => poller.remove(pod, graceSeconds, signal),
    ...(provider.finish && {
      finish: (pod: Pod, signal: AbortSignal) => poller.finish(pod, signal),
    }),
    removeUnknown: (uid) => poller.removeUnknown(uid),
    presence: (uid) => provider.presence(uid),
    list: () => provider.list(),
    nodeFacts: () => provider.nodeFacts(),
    ping: (signal) => provider.ping(signal),
  };
}

interface Tracked {
  pod: Pod;
  /** Milliseconds of the monotonic clock. Undefined if this process has not applied it. The provider may not have it then. */
  acceptedAt: number | undefined;
  last: PodStatus | undefined;
  /** Number of the question to which `last` is the answer. 0 if it is from the API. */
  question: number;
  isAsked: boolean;
  /** Whether it is being removed. It may then be missing. */
  isLeaving: boolean;
}

class Poller {
  readonly #provider: PolledPodProvider;
  readonly #options: PollOptions;
  readonly #stop = new AbortController();
  readonly #tracked = new Map<string, Tracked>();
  #callbacks: ProviderCallbacks | undefined;
  #rounds: Promise<void> | undefined;
  /** Number of questions so far. */
  #questions = 0;

  constructor(provider: PolledPodProvider, options: PollOptions) {
    this.#provider = provider;
    this.#options = options;
  }

  async start(callbacks: ProviderCallbacks): Promise<void> {
    this.#callbacks = callbacks;
    await this.#provider.start?.();
    const { clock, logger, intervalMs = 5000 } = this.#options;
    const options = {
      intervalMs,
      isImmediate: false,
      clock,
      logger,
      what: "ask for the statuses of pods",
      signal: this.#stop.signal,
    };
    this.#rounds = every(options, () => this.#round());
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#rounds;
    await this.#provider.stop?.();
  }

  async apply(resolved: ResolvedPod, signal: AbortSignal): Promise<void> {
    await this.#provider.apply(resolved, signal);
    const tracked = this.#follow(resolved.pod);
    tracked.acceptedAt ??= this.#options.clock.monotonic();
  }

  /** Asks for the pod's status even if the provider itself has nothing to resume. */
  async resume(pod: Pod): Promise<void> {
    await this.#provider.resume?.(pod);
    this.#follow(pod);
  }

  async remove(pod: Pod, graceSeconds: number, signal: AbortSignal): Promise<void> {
    const uid = pod.metadata.uid;
    const tracked = this.#tracked.get(uid) ?? this.#track(uid, pod);
    tracked.isLeaving = true;
    // It may have ended since the last question. Afterwards, its exit codes are unknown.
    const asked = isFinished({ status: tracked.last ?? {} }) ? undefined : this.#ask(uid);
    try {
      await this.#provider.remove(pod, graceSeconds, signal);
    } catch (error) {
      tracked.isLeaving = findError(error, "VK_NOT_FOUND") !== undefined;
      if (!tracked.isLeaving) throw error;
    }
    await asked;
    // Another call, with a shorter grace period, may have been faster.
    if (this.#tracked.get(uid) !== tracked) return;
    this.#tracked.delete(uid);
    const last = tracked.last ?? pod.status;
    if (!last || isFinished({ status: last })) return;
    const status = { ...goneStatus(pod, this.#now, last), reason: "Terminated" };
    this.#callbacks?.podStatus({ uid, status });
  }

  async finish(pod: Pod, signal: AbortSignal): Promise<void> {
    await this.#provider.finish?.(pod, signal);
    // Its status is final, so it need not be polled.
    this.#tracked.delete(pod.metadata.uid);
  }

  async removeUnknown(uid: string): Promise<void> {
    await this.#provider.removeUnknown(uid);
    this.#tracked.delete(uid);
  }

  #follow(pod: Pod): Tracked {
    const { uid } = pod.metadata;
    const tracked = this.#tracked.get(uid) ?? this.#track(uid, pod);
    tracked.pod = pod;
    void this.#ask(uid);
    return tracked;
  }

  #track(uid: string, pod: Pod): Tracked {
    const state = { acceptedAt: undefined, question: 0, isAsked: false, isLeaving: false };
    const tracked: Tracked = { pod, last: pod.status, ...state };
    this.#tracked.set(uid, tracked);
    return tracked;
  }

  async #round(): Promise<void> {
    const missing = await this.#askAll();
    const { concurrency = 16 } = this.#options;
    await inParallel(missing, concurrency, async (uid) => await this.#ask(uid));
  }

  /** Gets the statuses of all pods at once, if the provider supports that. @returns the pods without an answer */
  async #askAll(): Promise<readonly string[]> {
    const open = [...this.#tracked].filter(([, { last }]) => !isFinished({ status: last ?? {} }));
    const uids = open.map(([uid]) => uid);
    if (!this.#provider.statuses || uids.length === 0) return uids;
    const question = ++this.#questions;
    try {
      const ask = this.#provider.statuses.bind(this.#provider);
      const statuses = await this.#withTimeout((signal) => ask(signal));
      for (const uid of uids) {
        const status = statuses.get(uid);
        if (status) this.#answered(uid, status, question);
      }
      return uids.filter((uid) => !statuses.has(uid));
    } catch (error) {
      this.#logUnknown(error);
      return [];
    }
  }

  async #ask(uid: string): Promise<void> {
    const tracked = this.#tracked.get(uid);
    if (!tracked || tracked.isAsked) return;
    tracked.isAsked = true;
    const question = ++this.#questions;
    try {
      const status = await this.#withTimeout((signal) =>
        this.#provider.status(tracked.pod, signal),
      );
      if (this.#tracked.get(uid) !== tracked) return; // removed in the meantime
      if (status) this.#answered(uid, status, question);
      else this.#vanished(uid, tracked, question);
    } catch (error) {
      this.#logUnknown(error, uid);
    } finally {
      tracked.isAsked = false;
    }
  }

  #withTimeout<T>(ask: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { clock, timeoutMs: limitMs = 30_000 } = this.#options;
    const error = (): Error => new Error(`The provider did not answer within ${limitMs / 1000} s`);
    return withTimeout(ask, { limitMs, clock, signal: this.#stop.signal, error });
  }

  #answered(uid: string, status: PodStatus, question: number): void {
    const tracked = this.#tracked.get(uid);
    // The answer to a later question may arrive first.
    if (!tracked || question < tracked.question) return;
    tracked.question = question;
    tracked.last = status;
    this.#callbacks?.podStatus({ uid, status });
  }

  /** The backend has lost a pod without a request. The pod has failed, and its owner creates a replacement. */
  #vanished(uid: string, tracked: Tracked, question: number): void {
    const now = this.#options.clock.monotonic();
    const age = now - (tracked.acceptedAt ?? now);
    // What the API showed before a restart is not about a pod that was applied since, which may be a new run.
    const isAnswer = tracked.question > 0 || tracked.acceptedAt === undefined;
    const wasRunning = isAnswer && tracked.last?.phase === "Running";
    if (tracked.isLeaving || (!wasRunning && age < settlingMs)) return;
    const { pod, last } = tracked;
    const message = "The provider no longer has the pod";
    const status = { ...goneStatus(pod, this.#now, last), reason: "NotFound", message };
    this.#answered(uid, status, question);
  }

  get #now(): string {
    return wireTime(this.#options.clock.now());
  }

  #logUnknown(err: unknown, podUid?: string): void {
    if (this.#stop.signal.aborted) return;
    this.#options.logger.warn("Could not ask for a pod's status", { podUid, err });
  }
}
