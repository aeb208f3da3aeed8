import {
  backoffDelay,
  errorText,
  isCodedError,
  type BackoffOptions,
  type Clock,
  type Logger,
} from "@kip/base";
import { isNotFound, paths, wireTime, type ApiClient, type RecordedEvent } from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";
import type { NodeMetrics } from "../metrics/node-metrics.ts";
import type { PodProvider, PodStatusUpdate, ResolvedPod } from "../pod-provider.ts";
import { findError, VirtualKubeletError, type FoundError } from "../errors.ts";
import { statusProblem } from "../status/status-problem.ts";
import type { SpanFields, Tracer } from "../tracing.ts";
import { planStep, type ActorState, type Step } from "./actor-plan.ts";
import { terminalFields, goneStatus, waitingStatus } from "./own-statuses.ts";
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
  /** Looks up what the pod refers to; `previous` is what the provider accepted last. */
  readonly resolve: (pod: Pod, previous: ResolvedPod | undefined) => Promise<ResolvedPod>;
  readonly recordEvent: (pod: Pod, event: RecordedEvent) => void;
  readonly backoff: BackoffOptions;
  /** How long a call of the provider may take before it is reported on the pod, milliseconds. */
  readonly slowCallMs: number;
  readonly metrics: NodeMetrics;
  readonly tracer: Tracer;
  /** Called once, when the pod is gone from the API and from the provider. */
  readonly onEnd: () => void;
}

/** Reason of all aborted waits, made once: an error with a stack trace per actor is measurably slow. */
const actorEnded = new DOMException("The pod's actor has ended", "AbortError");

/**
 * Drives one pod, identified by its UID, towards its desired state: calls the provider, and writes the status.
 *
 * Invariants:
 * - One step at a time ({@link planStep}); changes meanwhile are seen by the next plan.
 * - The object is deleted from the API only when the provider has nothing of the pod left.
 * - A failing step is repeated without end, with a back-off that a relevant change ends.
 * - Without work there is no timer and no waiting promise.
 */
export class PodActor {
  readonly uid: string;
  readonly #options: PodActorOptions;
  readonly #status: StatusWriter;
  readonly #problems: ProviderProblems;
  readonly #stop = new AbortController();
  #pod: Pod;
  /** The pod when {@link isRelevantChange} was last asked. */
  #compared: Pod;
  /** Keys of the annotations that the provider has set. */
  readonly #ownAnnotations = new Set<string>();
  /** What the provider accepted last. */
  #applied: ResolvedPod | undefined;
  /** Whether the provider has reported a status: then the library writes none of its own. */
  #hasReported = false;
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
  /** The step that failed last and waits to be repeated. */
  #failing: Step | undefined;
  /** Whether a change ended the pause before the current attempt. */
  #isWoken = false;
  /** Grace period of the last deletion that was handled, seconds; undefined before the first. */
  #deletion: number | undefined;
  /** Aborts an apply that is no longer wanted. */
  #applying: AbortController | undefined;
  /** Aborts a finish whose pod is to be removed. */
  #finishing: AbortController | undefined;
  #removing: { readonly graceSeconds: number; readonly done: () => void } | undefined;

  constructor(pod: Pod, options: PodActorOptions) {
    this.uid = pod.metadata.uid;
    this.#pod = pod;
    this.#compared = pod;
    this.#options = options;
    this.#pause = new RetryPause(options.clock);
    // After a restart: removing a pod that its provider reported as ended would lose its logs.
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
      setCondition: (condition) => this.#status.setCondition(condition),
      recordEvent: options.recordEvent,
      slowCallMs: options.slowCallMs,
      signal: this.#stop.signal,
    });
  }

  /** The pod as the API has it. */
  get pod(): Pod {
    return this.#pod;
  }

  /** Takes a newer state of the pod, and starts the actor if it is not running. */
  update(pod: Pod): void {
    const wasFinished = isFinished(this.#pod);
    this.#store(pod);
    if (!wasFinished && isFinished(this.#pod)) this.#handleTerminalPhase();
    const isChanged = isRelevantChange(this.#compared, this.#pod, this.#ownAnnotations);
    this.#compared = this.#pod;
    if (isChanged) this.wake();
    if (this.#pod.metadata.deletionTimestamp !== undefined) this.#handleDeletion();
    this.#status.repair();
    this.#run();
  }

  /** The API server has deleted the pod's object. */
  objectDeleted(): void {
    this.#state = { ...this.#state, isGone: true };
    this.#applying?.abort();
    this.#finishing?.abort();
    this.#pause.end();
    if (this.#removing) this.#removeFaster(() => this.#options.provider.removeUnknown(this.uid));
    this.#run();
  }

  /** Something that the pod depends on changed: applies the pod again, without waiting for the end of a pause. */
  wake(): void {
    this.#state = { ...this.#state, isDirty: true };
    // Other steps do not depend on the content: writes to the pod must not shorten their pauses.
    if (this.#failing === "apply") this.#pause.wake();
    else if (this.#applying) this.#failures = 0;
    this.#run();
  }

  /** Whether resolved content of the pod must be resolved again by now, milliseconds since the epoch. */
  isRefreshDue(now: number): boolean {
    const refreshAt = this.#applied?.refreshAt;
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
      this.#applied !== undefined &&
      !this.#running &&
      !this.#state.isGone &&
      this.#pod.metadata.deletionTimestamp === undefined &&
      !isFinished(this.#pod)
    );
  }

  /** Takes a status that the provider reports. */
  reportStatus({ status, annotations, isDeleted = false }: PodStatusUpdate): void {
    if (this.#state.isGone) return;
    const problem = statusProblem(status);
    if (problem !== undefined) {
      const message = `The provider reported an invalid status: ${problem}`;
      this.#problems.report("ProviderStatusInvalid", message);
      // A provider may report an end only once: an invalid field must not keep the pod running.
      if (isFinished({ status }))
        this.reportStatus({ uid: this.uid, status: terminalFields(status) });
      return;
    }
    this.#hasReported = true;
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

  /** Writes the status again if the API's differs from the provider's. */
  repairStatus(): void {
    this.#status.repair();
  }

  /** Writes a terminal status that the provider reported, without pauses; resolves when the API has it. */
  async flushEnd(): Promise<void> {
    await this.#status.flushEnd();
  }

  /** Ends the actor; the pod goes on. */
  stop(): void {
    this.#stop.abort(actorEnded);
    this.#applying?.abort();
    this.#finishing?.abort();
    this.#pause.end();
  }

  /** Of two equal versions the watch's copy is kept, because the informer's cache holds it already. */
  #written(written: Pod): void {
    if (versionOf(written) <= versionOf(this.#pod)) return;
    this.#store(written);
    if (isFinished(written)) this.#run();
  }

  get #spanFields(): SpanFields {
    const { namespace, name } = this.#pod.metadata;
    return { pod: `${namespace}/${name}`, podUid: this.uid };
  }

  /** Keeps the newer of two versions: responses to writes and watch events overtake each other. */
  #store(pod: Pod): void {
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

  /** An unexpected error ends only the current run of this actor. */
  async #supervise(): Promise<void> {
    try {
      await this.#steps();
    } catch (err) {
      this.#running = false;
      this.#options.logger.error("Could not run the steps of a pod", { err });
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
    // No await from here to the end: a later change starts the steps again.
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
      const resolved = await this.#options.resolve(pod, this.#applied);
      applying.signal.throwIfAborted();
      // Before the call: the provider may report a status before it returns.
      this.#generation = pod.metadata.generation;
      await this.#problems.watch("apply", () =>
        this.#options.provider.apply(resolved, applying.signal),
      );
      this.#applied = resolved;
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
    const replaced = Promise.withResolvers<void>();
    this.#removing = { graceSeconds, done: replaced.resolve };
    try {
      const remove = (): Promise<void> =>
        provider.remove(this.#pod, graceSeconds, this.#stop.signal);
      await Promise.race([this.#problems.watch("remove", remove, graceSeconds), replaced.promise]);
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

  /** Writes the last status and completes the deletion of the object. */
  async #finalize(): Promise<void> {
    const { client, clock } = this.#options;
    await this.#status.idle();
    if (!isFinished(this.#pod)) {
      // Also for a pod that never ran: its Job waits for a terminal phase.
      this.#status.write(goneStatus(this.#pod, wireTime(clock.now())));
      await this.#status.idle();
    }
    const { namespace, name } = this.#pod.metadata;
    try {
      await client.delete(paths.pods(namespace, name), { uid: this.uid, graceSeconds: 0 });
    } catch (error) {
      // A conflict means that another pod has the name by now, which the watch will show, or that the server
      // is busy: repeat until one of them is certain.
      if (!isNotFound(error)) throw error;
    }
    this.#state = { ...this.#state, isFinalized: true };
  }

  /** The pod became terminal: ends an apply, and the pause after a failed one. */
  #handleTerminalPhase(): void {
    this.#applying?.abort();
    if (this.#failing === "apply") this.#pause.end();
  }

  /**
   * Handles a deletion that is new or more urgent than before. Other changes of a pod that is being deleted, such
   * as its status, do not end a pause.
   */
  #handleDeletion(): void {
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
      this.#removeFaster(() =>
        this.#options.provider.remove(this.#pod, graceSeconds, this.#stop.signal),
      );
    }
  }

  /** Starts a second, more urgent removal beside the current one. The step is done when either ends. */
  #removeFaster(call: () => Promise<void>): void {
    const removing = this.#removing;
    void (async () => {
      try {
        await call();
        removing?.done();
      } catch (err) {
        // The first call continues, and is repeated if it fails.
        this.#options.logger.warn("Could not speed up the removal of a pod", { err });
      }
    })();
  }

  async #failed(step: Step, error: unknown): Promise<void> {
    const { logger } = this.#options;
    const isObsolete =
      this.#stop.signal.aborted ||
      ((step === "apply" || step === "finish") && planStep(this.#state, this.#pod) !== step);
    if (isObsolete) return;
    const invalid = step === "apply" && findError(error, "VK_INVALID_POD");
    if (invalid) return this.#reject(invalid);
    const { backoff } = this.#options;
    const delayMs = backoffDelay(this.#failures++, backoff, error);
    // A back-off that the backend asked for is kept. The first change ends a pause at once, frequent changes do not.
    const isFirm = isCodedError(error) && error.retryAfterMs !== undefined;
    const firmMs = isFirm ? delayMs : this.#isWoken ? Math.min(delayMs, backoff.initialMs) : 0;
    logger.warn(`Could not ${step} a pod`, { delayMs, err: error });
    this.#explain(step, error);
    this.#failing = step;
    this.#isWoken = await this.#pause.wait({ delayMs, firmMs });
    if (this.#isWoken) this.#failures = 0;
  }

  /** Shows on the pod why its step failed. */
  #explain(step: Step, error: unknown): void {
    const message = errorText(error);
    if (VirtualKubeletError.is(error, "VK_UNRESOLVED")) return this.#showWaiting(error);
    if (step === "finalize" || step === "forget") return;
    const verb = { remove: "Delete", finish: "Stop", apply: this.#applied ? "Update" : "Create" }[
      step
    ];
    this.#problems.report(`Provider${verb}Failed`, message);
    if (verb === "Create" && !this.#hasBetterStatus)
      this.#status.write({ phase: "Pending", reason: "ProviderFailed", message });
  }

  /** Whether the provider has reported a status, now or before a restart, which must not be overwritten. */
  get #hasBetterStatus(): boolean {
    return this.#hasReported || hasStarted(this.#pod);
  }

  #showWaiting(error: unknown): void {
    if (this.#hasBetterStatus) return;
    this.#status.write(waitingStatus(this.#pod, error, wireTime(this.#options.clock.now())));
  }

  /** Fails a pod that can never run here. */
  #reject(error: FoundError): void {
    const message = errorText(error);
    const reason = typeof error.reason === "string" ? error.reason : "ProviderRejected";
    this.#state = { ...this.#state, isDirty: false };
    this.#options.recordEvent(this.#pod, { type: "Warning", reason, message });
    this.#status.write({ phase: "Failed", reason, message });
  }
}
