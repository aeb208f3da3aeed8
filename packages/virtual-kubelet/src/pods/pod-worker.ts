import { errorText, type BackoffOptions } from "@kip/base";
import type { Pod } from "@kip/k8s-types";
import { Reconciler } from "@kip/reconcile";
import type { PodStatusUpdate } from "../pod-provider.ts";
import { statusProblem } from "../status/status-problem.ts";
import { startPodSpan } from "../tracing.ts";
import { explainFailure } from "./explain-failure.ts";
import { terminalFields } from "./fallback-statuses.ts";
import { hasStarted, isFinished } from "./pod-facts.ts";
import { podExecutors, type PodExecutorOptions } from "./pod-executors.ts";
import { planPod, shouldBePresent, stepInput, type PodStepArgs } from "./pod-plan.ts";
import { initialPodState, reducePod, type PodChange, type PodState } from "./pod-state.ts";
import { ProviderProblems } from "./provider-problems.ts";
import { StatusWriter } from "./status-writer.ts";

/** Options of {@link PodWorker}. */
export interface PodWorkerOptions extends Omit<
  PodExecutorOptions,
  "status" | "problems" | "signal"
> {
  readonly backoff: BackoffOptions;
  /** How long a call of the provider may take before it is reported on the pod, milliseconds. */
  readonly slowCallMs: number;
  /** Called once, when the pod is gone from the API and from the provider. */
  readonly onEnd: () => void;
}

/** Reason of all aborted waits, created once: an error with a stack trace for each worker is measurably slow. */
const workerEnded = new DOMException("The pod's worker has ended", "AbortError");

/**
 * Moves one pod, identified by its UID, towards its desired state: calls the provider and writes the status.
 *
 * Invariants:
 * - Only one step runs at a time ({@link planPod}). The next plan takes changes during the step into account.
 * - The object is deleted from the API only when the provider has nothing left of the pod.
 * - A failing step is repeated endlessly with a back-off. A relevant change ends the back-off.
 * - Without work, there is no timer and no waiting promise.
 */
export class PodWorker {
  readonly uid: string;
  readonly #options: PodWorkerOptions;
  readonly #status: StatusWriter;
  readonly #problems: ProviderProblems;
  readonly #reconciler: Reconciler<PodStepArgs, PodState, PodChange>;
  readonly #stop = new AbortController();
  #isEnding = false;

  constructor(pod: Pod, options: PodWorkerOptions) {
    this.uid = pod.metadata.uid;
    this.#options = options;
    const { client, nodeClient, provider, clock, logger, recordEvent, slowCallMs, backoff } =
      options;
    const { signal } = this.#stop;
    const status = new StatusWriter({
      client: nodeClient,
      clock,
      logger,
      pod: () => this.pod,
      onAnswer: (written) => this.#change({ kind: "seen", pod: written, source: "write" }),
      onRefused: (error) => this.#statusInvalid(errorText(error)),
      observedGeneration: () => this.#reconciler.state.content.generation,
      signal,
    });
    const problems = new ProviderProblems({
      clock,
      logger,
      pod: () => this.pod,
      setCondition: (condition) => status.setCondition(condition),
      recordEvent,
      slowCallMs,
      apiWaitMs: () => client.longestWaitMs ?? 0,
      signal,
    });
    this.#status = status;
    this.#problems = problems;
    this.#reconciler = new Reconciler({
      initial: initialPodState(pod, { canFinish: provider.finish !== undefined }),
      plan: planPod,
      reduce: reducePod,
      executors: podExecutors({ ...options, status, problems, signal }),
      input: stepInput,
      backoff,
      onChange: (state) => this.#endIfGone(state),
      onFailure: (failure) => {
        const { state } = this.#reconciler;
        explainFailure(failure, { state, status, problems, clock, logger });
        return undefined;
      },
      clock,
      logger,
    });
  }

  /** The pod as the API has it. */
  get pod(): Pod {
    return this.#reconciler.state.api.pod;
  }

  /** Handles a newer version of the pod. Starts the worker if it is not running. */
  update(pod: Pod): void {
    this.#change({ kind: "seen", pod, source: "watch" });
    this.#status.repair();
  }

  /** Call this when the API server has deleted the pod's object. */
  objectDeleted(): void {
    this.#status.objectDeleted();
    this.#change({ kind: "objectDeleted" });
  }

  /**
   * Call this when an object that the pod refers to has changed. Passes the pod to the provider again, without waiting for the
   * end of a pause.
   */
  wake(): void {
    this.#change({ kind: "contentChanged" });
  }

  /**
   * Whether some content of the pod, such as a token, must be resolved again.
   *
   * @param now milliseconds since the epoch
   */
  isRefreshDue(now: number): boolean {
    const refreshAt = this.#reconciler.state.content.applied?.refreshAt;
    return refreshAt !== undefined && refreshAt <= now;
  }

  /** Whether a step is running, or a failed one waits to be repeated. */
  get isBusy(): boolean {
    return !this.#reconciler.isSettled;
  }

  /** Whether a failed step waits to be repeated. */
  get isFailing(): boolean {
    return this.#reconciler.isFailing;
  }

  /** Whether the provider has accepted the pod and should have it now. */
  get shouldBePresent(): boolean {
    return shouldBePresent(this.#reconciler.state);
  }

  /** Handles a status from the provider. */
  reportStatus({ status, annotations = {}, isDeleted = false }: PodStatusUpdate): void {
    if (this.#reconciler.state.api.isGone) return;
    const problem = statusProblem(status);
    if (problem !== undefined) {
      this.#statusInvalid(`The provider reported an invalid status: ${problem}`);
      // A provider may report an end only once, so an invalid field must not keep the pod running.
      if (isFinished({ status }))
        this.reportStatus({ uid: this.uid, status: terminalFields(status) });
      return;
    }
    const isEnd = isFinished({ status });
    this.#change({ kind: "reported", isEnd, annotations: Object.keys(annotations), isDeleted });
    this.#status.write(status, annotations);
  }

  /** Writes the status again if the API's differs from the provider's. */
  repairStatus(): void {
    this.#status.repair();
  }

  /** Writes a terminal status from the provider without pauses. Resolves when the API has it. */
  async flushEnd(): Promise<void> {
    await this.#status.flushEnd();
  }

  /** Ends the worker, but not the pod. */
  stop(): void {
    this.#stop.abort(workerEnded);
    void this.#reconciler.stop();
  }

  #statusInvalid(message: string): void {
    this.#problems.report("ProviderStatusInvalid", message);
    this.#change({ kind: "statusInvalid" });
  }

  #change(change: PodChange): void {
    const before = this.pod;
    this.#reconciler.apply(change);
    const { pod } = this;
    if (!hasStarted(before) && pod.status?.phase === "Running") this.#started(pod);
  }

  #started({ metadata }: Pod): void {
    const createdAt = Date.parse(metadata.creationTimestamp ?? "");
    if (Number.isNaN(createdAt)) return;
    const { metrics, tracer, clock } = this.#options;
    metrics.podStarted(clock.now() - createdAt);
    startPodSpan(tracer, "pod.start", metadata, createdAt).end();
  }

  #endIfGone({ api, provider }: PodState): void {
    if (!api.isGone || !provider.isRemoved || this.#isEnding) return;
    this.#isEnding = true;
    void this.#reconciler.settled.then(() => {
      this.stop();
      this.#options.onEnd();
    });
  }
}
