import {
  backoffDelay,
  errorText,
  hasCode,
  isKipError,
  type BackoffOptions,
  type Clock,
  type Logger,
} from "@kip/base";
import { paths, wireTime, type ApiClient, type RecordedEvent } from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";
import type { NodeMetrics } from "../metrics/node-metrics.ts";
import type { PodProvider, PodStatusUpdate, ResolvedPod } from "../pod-provider.ts";
import { findError } from "../providers/find-error.ts";
import { statusProblem } from "../status/status-problem.ts";
import type { SpanFields, Tracer } from "../tracing.ts";
import { planStep, type ActorState, type Step } from "./actor-plan.ts";
import { endOnly, goneStatus, waitingStatus } from "./own-statuses.ts";
import {
  gracePeriod,
  hasStarted,
  isFinished,
  isRelevantChange,
  mayStillRun,
  versionOf,
} from "./pod-changes.ts";
import { ProviderProblems } from "./provider-problems.ts";
import { RetryPause } from "./retry-pause.ts";
import { StatusWriter } from "./status-writer.ts";

/** Options of {@link PodActor}. */
export interface PodActorOptions {
  readonly client: ApiClient;
  readonly provider: PodProvider;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Looks up what the pod refers to; `previous` is what its provider has accepted last. */
  readonly resolve: (pod: Pod, previous: ResolvedPod | undefined) => Promise<ResolvedPod>;
  readonly recordEvent: (pod: Pod, event: RecordedEvent) => void;
  readonly backoff: BackoffOptions;
  /** When a call of the provider that has not returned is told of, milliseconds. */
  readonly slowCallMs: number;
  readonly metrics: NodeMetrics;
  readonly tracer: Tracer;
  /** The pod is gone from the API and from the provider. */
  readonly onEnd: () => void;
}

/** Why actors end. One for all: an error for each costs more than the rest of it. */
const ended = new DOMException("The pod's actor has ended", "AbortError");

/**
 * Brings one pod, known by its UID, from what the API wants to what the provider does.
 *
 * Invariants:
 * - One step at a time ({@link planStep}); what changes meanwhile is seen by the next plan.
 * - The provider's part comes before the API's: an object is deleted only when nothing of it is left.
 * - A failing step is repeated for ever, with a back-off that a relevant change ends.
 * - Without work there is no timer and no waiting promise.
 */
export class PodActor {
  readonly uid: string;
  readonly #options: PodActorOptions;
  readonly #status: StatusWriter;
  readonly #problems: ProviderProblems;
  readonly #stop = new AbortController();
  #pod: Pod;
  /** The state of the pod whose relevant parts were looked at last. */
  #seen: Pod;
  /** Keys of the annotations that the provider has set. */
  readonly #ownAnnotations = new Set<string>();
  /** What the provider has accepted last. */
  #given: ResolvedPod | undefined;
  /** Whether the provider has said how the pod is: then nothing is said in its stead. */
  #hasWord = false;
  /** Generation of the pod that the provider has accepted. */
  #generation: number | undefined;
  #state: ActorState = {
    isDirty: true,
    isGone: false,
    isDeletedByProvider: false,
    isEnded: false,
    isStopped: false,
    isRemoved: false,
    isFinalized: false,
  };
  #failures = 0;
  #running = false;
  readonly #executors: Readonly<Record<Step, () => Promise<void>>> = {
    apply: () => this.#apply(),
    finish: () => this.#finish(),
    remove: () => this.#remove(),
    finalize: () => this.#finalize(),
    forget: () => this.#forget(),
  };
  readonly #pause: RetryPause;
  /** The step that the pause is for. */
  #failing: Step | undefined;
  /** A change ended the pause before the present attempt. */
  #isWoken = false;
  /** Grace period of the deletion that was acted on last, seconds; undefined before the first. */
  #deletion: number | undefined;
  /** Ends an apply that is not wanted any more. */
  #applying: AbortController | undefined;
  /** Ends a finish whose pod is to be removed. */
  #finishing: AbortController | undefined;
  #removing: { readonly graceSeconds: number; readonly done: () => void } | undefined;

  constructor(pod: Pod, options: PodActorOptions) {
    this.uid = pod.metadata.uid;
    this.#pod = pod;
    this.#seen = pod;
    this.#options = options;
    this.#pause = new RetryPause(options.clock);
    // After a restart: to remove a pod that its provider reported as ended would lose its logs.
    if (isFinished(pod) && !options.provider.finish && !mayStillRun(pod))
      this.#state = { ...this.#state, isEnded: true };
    this.#status = new StatusWriter({
      client: options.client,
      clock: options.clock,
      logger: options.logger,
      pod: () => this.#pod,
      onWritten: (written) => this.#written(written),
      onRefused: (error) => this.#problems.report("ProviderStatusInvalid", errorText(error)),
      observedGeneration: () => this.#generation,
      signal: this.#stop.signal,
    });
    this.#problems = new ProviderProblems({
      clock: options.clock,
      logger: options.logger,
      pod: () => this.#pod,
      note: (condition) => this.#status.note(condition),
      recordEvent: options.recordEvent,
      slowCallMs: options.slowCallMs,
      signal: this.#stop.signal,
    });
  }

  /** The pod as the API has it. */
  get pod(): Pod {
    return this.#pod;
  }

  /** Starts, or goes on with a newer state of the pod. */
  offer(pod: Pod): void {
    const wasFinished = isFinished(this.#pod);
    this.#take(pod);
    if (!wasFinished && isFinished(this.#pod)) this.#finishedSeen();
    const isChanged = isRelevantChange(this.#seen, this.#pod, this.#ownAnnotations);
    this.#seen = this.#pod;
    if (isChanged) this.wake();
    if (this.#pod.metadata.deletionTimestamp !== undefined) this.#deletionSeen();
    this.#status.repair();
    this.#run();
  }

  /** The API server has deleted the pod. */
  gone(): void {
    this.#state = { ...this.#state, isGone: true };
    this.#applying?.abort();
    this.#finishing?.abort();
    this.#pause.end();
    if (this.#removing) this.#insist(() => this.#options.provider.removeUnknown(this.uid));
    this.#run();
  }

  /** Something the pod depends on changed: its provider is told again, and a pause ends. */
  wake(): void {
    this.#state = { ...this.#state, isDirty: true };
    // Other steps do not depend on the content: whoever writes to the pod must not hasten them.
    if (this.#failing === "apply") this.#pause.wake();
    else if (this.#applying) this.#failures = 0;
    this.#run();
  }

  /** Has resolved content that is due to be made again. */
  isRefreshDue(now: number): boolean {
    const refreshAt = this.#given?.refreshAt;
    return refreshAt !== undefined && refreshAt <= now;
  }

  /** Whether a step is under way, or the pause behind a failing one. */
  get isBusy(): boolean {
    return this.#running;
  }

  /** Whether a failed step waits to be repeated. */
  get isFailing(): boolean {
    return this.#pause.isRunning;
  }

  /** Whether the provider has accepted the pod and should have it now. */
  get shouldBePresent(): boolean {
    return (
      this.#given !== undefined &&
      !this.#running &&
      !this.#state.isGone &&
      this.#pod.metadata.deletionTimestamp === undefined &&
      !isFinished(this.#pod)
    );
  }

  /** The provider's word on the pod. */
  offerStatus({ status, annotations, isDeleted = false }: PodStatusUpdate): void {
    if (this.#state.isGone) return;
    const problem = statusProblem(status);
    if (problem !== undefined) {
      const message = `The provider reported an invalid status: ${problem}`;
      this.#problems.report("ProviderStatusInvalid", message);
      // An end may be reported only once: what is invalid about it must not keep the pod running.
      if (isFinished({ status })) this.offerStatus({ uid: this.uid, status: endOnly(status) });
      return;
    }
    this.#hasWord = true;
    this.#state = { ...this.#state, isEnded: isFinished({ status }) };
    for (const key of Object.keys(annotations ?? {})) this.#ownAnnotations.add(key);
    this.#status.write(status, annotations);
    if (isFinished(this.#pod)) this.#run();
    if (!isDeleted || this.#state.isRemoved) return;
    this.#state = { ...this.#state, isDeletedByProvider: true, isRemoved: true };
    this.#applying?.abort();
    this.#finishing?.abort();
    this.#removing?.done();
    this.#pause.end();
    this.#run();
  }

  /** Checks the API's status against the provider's word. */
  repairStatus(): void {
    this.#status.repair();
  }

  /** Writes the end that the provider has reported, without pauses; resolves when the API has it. */
  async flushEnd(): Promise<void> {
    await this.#status.flushEnd();
  }

  /** Ends the actor; pod and provider stay as they are. */
  stop(): void {
    this.#stop.abort(ended);
    this.#applying?.abort();
    this.#finishing?.abort();
    this.#pause.end();
  }

  /** Of equal states it is the watch's that is kept: others hold it too. */
  #written(written: Pod): void {
    if (versionOf(written) <= versionOf(this.#pod)) return;
    this.#take(written);
    if (isFinished(written)) this.#run();
  }

  get #spanFields(): SpanFields {
    const { namespace, name } = this.#pod.metadata;
    return { pod: `${namespace}/${name}`, podUid: this.uid };
  }

  /** Keeps the newer of two states: answers to writes and the watch overtake each other. */
  #take(pod: Pod): void {
    if (versionOf(pod) < versionOf(this.#pod)) return;
    const isStart = !hasStarted(this.#pod) && pod.status?.phase === "Running";
    this.#pod = pod;
    const created = Date.parse(pod.metadata.creationTimestamp ?? "");
    if (isStart && !Number.isNaN(created))
      this.#options.metrics.podStarted(this.#options.clock.now() - created);
  }

  #run(): void {
    if (this.#running) return;
    this.#running = true;
    void this.#supervise();
  }

  /** A fault of ours in one actor stays in this actor. */
  async #supervise(): Promise<void> {
    try {
      await this.#steps();
    } catch (err) {
      this.#running = false;
      this.#options.logger.error("A pod's actor failed", { err });
    }
  }

  async #steps(): Promise<void> {
    const { clock, metrics, tracer } = this.#options;
    for (;;) {
      const step = this.#stop.signal.aborted ? undefined : planStep(this.#state, this.#pod);
      if (!step) break;
      const startedAt = clock.monotonic();
      const span = tracer.start(`pod.${step}`, { ...this.#spanFields });
      try {
        if (step !== this.#failing) this.#failures = 0;
        this.#failing = undefined;
        await this.#executors[step]();
        this.#failures = 0;
        this.#isWoken = false;
        span.end();
        metrics.step(step, "ok", clock.monotonic() - startedAt);
      } catch (error) {
        span.end(error);
        metrics.step(step, "failed", clock.monotonic() - startedAt);
        await this.#failed(step, error);
      }
    }
    // From here to the end nothing waits: what comes later starts the steps again.
    this.#running = false;
    if (this.#state.isGone && this.#state.isRemoved) {
      this.stop();
      this.#options.onEnd();
    }
  }

  async #apply(): Promise<void> {
    this.#state = { ...this.#state, isDirty: false };
    const pod = this.#pod;
    const applying = new AbortController();
    this.#applying = applying;
    try {
      const resolved = await this.#options.resolve(pod, this.#given);
      applying.signal.throwIfAborted();
      // Before the call: the provider may report a status before it returns.
      this.#generation = pod.metadata.generation;
      await this.#problems.watch("apply", () =>
        this.#options.provider.apply(resolved, applying.signal),
      );
      this.#given = resolved;
      this.#problems.clear();
    } catch (error) {
      this.#state = { ...this.#state, isDirty: true };
      throw error;
    } finally {
      this.#applying = undefined;
    }
    if (isRelevantChange(pod, this.#pod, this.#ownAnnotations))
      this.#state = { ...this.#state, isDirty: true };
    this.#status.refresh();
  }

  /** Stops what still runs of a pod that is terminal in the API. Its object stays. */
  async #finish(): Promise<void> {
    const { provider, logger } = this.#options;
    if (!provider.finish) return this.#remove();
    const finishing = new AbortController();
    this.#finishing = finishing;
    const finish = async (): Promise<void> => provider.finish?.(this.#pod, finishing.signal);
    try {
      await this.#problems.watch("finish", finish, gracePeriod(this.#pod));
    } catch (error) {
      if (!findError(error, "VK_NOT_FOUND")) throw error;
    } finally {
      this.#finishing = undefined;
    }
    this.#state = { ...this.#state, isStopped: true };
    logger.info("Stopped a pod that is terminal in the API");
  }

  async #remove(): Promise<void> {
    const { provider, logger } = this.#options;
    const graceSeconds = gracePeriod(this.#pod);
    const insisted = Promise.withResolvers<void>();
    this.#removing = { graceSeconds, done: insisted.resolve };
    try {
      const remove = (): Promise<void> =>
        provider.remove(this.#pod, graceSeconds, this.#stop.signal);
      await Promise.race([this.#problems.watch("remove", remove, graceSeconds), insisted.promise]);
    } catch (error) {
      if (!findError(error, "VK_NOT_FOUND")) throw error;
    } finally {
      this.#removing = undefined;
    }
    this.#state = { ...this.#state, isRemoved: true };
    logger.info("Removed a pod", { graceSeconds });
  }

  async #forget(): Promise<void> {
    await this.#options.provider.removeUnknown(this.uid);
    this.#state = { ...this.#state, isRemoved: true };
  }

  /** Writes the last status and deletes the object, which its deletion only marked so far. */
  async #finalize(): Promise<void> {
    const { client, clock } = this.#options;
    await this.#status.idle();
    if (!isFinished(this.#pod)) {
      // Of a pod that never ran, too: its Job waits for an end.
      this.#status.write(goneStatus(this.#pod, wireTime(clock.now())));
      await this.#status.idle();
    }
    const { namespace, name } = this.#pod.metadata;
    try {
      await client.delete(paths.pods(namespace, name), { uid: this.uid, graceSeconds: 0 });
    } catch (error) {
      // A conflict is another pod of this name, and then the watch tells that ours is gone, or a
      // server that is busy writing: it is tried again until one or the other shows.
      if (!hasCode(error, "K8S_NOT_FOUND")) throw error;
    }
    this.#state = { ...this.#state, isFinalized: true };
  }

  /** The pod became terminal: an apply is not wanted any more, nor is the pause after one. */
  #finishedSeen(): void {
    this.#applying?.abort();
    if (this.#failing === "apply") this.#pause.end();
  }

  /**
   * Acts on a deletion that is new, or more urgent than before. Any other change of a pod that is being
   * deleted, such as its status that says why it cannot be removed, ends no pause.
   */
  #deletionSeen(): void {
    const graceSeconds = gracePeriod(this.#pod);
    const before = this.#deletion;
    if (before !== undefined && graceSeconds >= before) return;
    this.#deletion = graceSeconds;
    this.#applying?.abort();
    this.#finishing?.abort();
    if (this.#failing === "remove") this.#pause.wake();
    else if (before === undefined) this.#pause.end();
    if (this.#removing && graceSeconds < this.#removing.graceSeconds) {
      this.#removing = { ...this.#removing, graceSeconds };
      this.#insist(() => this.#options.provider.remove(this.#pod, graceSeconds, this.#stop.signal));
    }
  }

  /** A second, more urgent removal beside the one that runs. Whichever ends first ends both. */
  #insist(call: () => Promise<void>): void {
    const removing = this.#removing;
    void (async () => {
      try {
        await call();
        removing?.done();
      } catch (error) {
        // The first call goes on, and is repeated if it fails.
        this.#options.logger.warn("Could not hasten a pod's removal", { cause: errorText(error) });
      }
    })();
  }

  async #failed(step: Step, error: unknown): Promise<void> {
    const { logger } = this.#options;
    const isOverruled =
      this.#stop.signal.aborted ||
      ((step === "apply" || step === "finish") && planStep(this.#state, this.#pod) !== step);
    if (isOverruled) return;
    const invalid = step === "apply" && findError(error, "VK_INVALID_POD");
    if (invalid) return this.#reject(invalid);
    const { backoff } = this.#options;
    const delayMs = backoffDelay(this.#failures++, backoff, error);
    // A backend that says when to come back is obeyed; a change ends a pause at once, many do not.
    const isFirm = isKipError(error) && error.facts["retryAfterMs"] !== undefined;
    const firmMs = isFirm ? delayMs : this.#isWoken ? Math.min(delayMs, backoff.initialMs) : 0;
    logger.warn("A step of a pod failed", { step, delayMs, cause: errorText(error) });
    this.#explain(step, error);
    this.#failing = step;
    this.#isWoken = await this.#pause.wait({ delayMs, firmMs });
    if (this.#isWoken) this.#failures = 0;
  }

  /** Says on the pod why it does not go on. */
  #explain(step: Step, error: unknown): void {
    const message = errorText(error);
    if (hasCode(error, "VK_UNRESOLVED")) return this.#showWaiting(error);
    if (step === "finalize" || step === "forget") return;
    const what = { remove: "Delete", finish: "Stop", apply: this.#given ? "Update" : "Create" }[
      step
    ];
    this.#problems.report(`Provider${what}Failed`, message);
    if (what === "Create" && !this.#isKnown)
      this.#status.write({ phase: "Pending", reason: "ProviderFailed", message });
  }

  /** Whether there is a word on the pod's status that is better than ours. */
  get #isKnown(): boolean {
    return this.#hasWord || hasStarted(this.#pod);
  }

  #showWaiting(error: unknown): void {
    if (this.#isKnown) return;
    this.#status.write(waitingStatus(this.#pod, error, wireTime(this.#options.clock.now())));
  }

  /** This pod can never run here. */
  #reject(error: unknown): void {
    const message = errorText(error);
    const stated = isKipError(error) ? error.facts["reason"] : undefined;
    const reason = typeof stated === "string" ? stated : "ProviderRejected";
    this.#state = { ...this.#state, isDirty: false };
    this.#options.recordEvent(this.#pod, { type: "Warning", reason, message });
    this.#status.write({ phase: "Failed", reason, message });
  }
}
