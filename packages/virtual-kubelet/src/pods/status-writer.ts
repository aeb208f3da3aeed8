import { backoffDelay, pause, type Clock, type Logger } from "@kip/base";
import {
  K8sError,
  isNotFound,
  isConflict,
  dropManagedFields,
  paths,
  wireTime,
  type ApiClient,
} from "@kip/k8s-client";
import type { Pod, PodCondition, PodStatus } from "@kip/k8s-types";
import { isFinished, versionOf } from "./pod-facts.ts";
import { mayWaitMs } from "./status-detail.ts";
import { statusPatch, type StatusPatch } from "./status-patch.ts";
import { StatusReduction } from "./status-reduction.ts";
import { isOtherPod, isRefusal } from "./status-refusal.ts";

/** Options of {@link StatusWriter}. */
export interface StatusWriterOptions {
  readonly client: ApiClient;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The newest known state of the pod in the API. */
  readonly pod: () => Pod;
  /** Called with the pod from the API server, after a write, or after reading it because of a conflict. */
  readonly onAnswer: (pod: Pod) => void;
  /** Called when the API server refuses a whole status. */
  readonly onRefused: (error: unknown) => void;
  /** The pod's generation that the statuses are about. */
  readonly observedGeneration: () => number | undefined;
  readonly signal: AbortSignal;
}

const backoff = { initialMs: 200, maxMs: 30_000 };

/** After this many consecutive conflicts, a status that is not the last is left to the next sweep. */
const maxConflicts = 4;

/** How long to wait for the watch to deliver the cause of a conflict before reading the pod, milliseconds. */
const watchDelayMs = 1000;

/** Shortest interval between corrections of a status that another client keeps changing, milliseconds. */
const repairIntervalMs = 10_000;

/** Shortest interval before a partly refused status is tried again completely, milliseconds. */
const refusedIntervalMs = 60_000;

/** Shortest interval between writes of the library's condition if only its text changes, milliseconds. */
const conditionIntervalMs = 10_000;

/**
 * Writes one pod's status: one request at a time, always the latest status, and no request if the API already has it. The
 * status of a finished pod is never written again.
 *
 * A status that only adds details or an address to a starting pod waits for a newer one ({@link mayWaitMs}). A pod that is
 * running within that time needs a single write.
 *
 * If the API server refuses a status, its other fields are written. A terminal phase is repeated until the API server accepts
 * it.
 */
export class StatusWriter {
  readonly #options: StatusWriterOptions;
  readonly #reduction = new StatusReduction();
  #wanted: PodStatus | undefined;
  #ownCondition: PodCondition | undefined;
  #conditionSetAt = Number.NEGATIVE_INFINITY;
  #annotations: Readonly<Record<string, string>> = {};
  #isDirty = false;
  #writing: Promise<void> | undefined;
  /** Ends the pause after a failure and the wait for the watch. */
  #pauseEnd: AbortController | undefined;
  /** The newest version of the pod for which a write had a conflict. */
  #outdated: bigint | undefined;
  #isWaitingForWatch = false;
  /** Time limit of the present wait for a newer status, milliseconds. 0 if it is not waiting. */
  #waitsMs = 0;
  #isDeleted = false;
  #repairedAt = Number.NEGATIVE_INFINITY;
  #refusedAt = Number.NEGATIVE_INFINITY;

  constructor(options: StatusWriterOptions) {
    this.#options = options;
  }

  /**
   * Changes the API's status to this one, and sets these annotations on the pod. Other annotations stay. As in a kubelet, the
   * first start time is kept, and it is now if no status has one. Only another terminal status replaces a terminal one that the
   * API does not have yet.
   */
  write(status: PodStatus, annotations: Readonly<Record<string, string>> = {}): void {
    if (this.#isEnd && !isFinished({ status })) return;
    this.#wanted = { ...status, startTime: this.#startTime(status) };
    this.#annotations = annotations;
    this.#reduction.reset();
    this.#start();
  }

  /**
   * Sets a condition of the library's own, in addition to the status. If only its text changes soon after the last write, it
   * waits for the next write or {@link StatusWriter.repair}.
   */
  setCondition(condition: PodCondition): void {
    const isSame = this.#ownCondition?.status === condition.status;
    this.#ownCondition = condition;
    const now = this.#options.clock.monotonic();
    if (isSame && now - this.#conditionSetAt < conditionIntervalMs) return;
    this.#conditionSetAt = now;
    this.#start();
  }

  /**
   * Writes the status again because the observed generation has changed. Does nothing for a pod that has started if its
   * provider has not reported a status to this process yet: the API's status stays until then.
   */
  refresh(): void {
    const isStarted = (this.#options.pod().status?.phase ?? "Pending") !== "Pending";
    if (this.#wanted || isStarted) this.#start();
  }

  /**
   * Call this when a newer version of the pod is known. Writes the status again if the API no longer has it, at most every ten
   * seconds. A write that had a conflict and waits for this version continues.
   */
  repair(): void {
    if (this.#isWaitingForWatch && !this.#isOutdated) this.#pauseEnd?.abort();
    if ((!this.#wanted && !this.#ownCondition) || this.#writing) return;
    const now = this.#options.clock.monotonic();
    if (now - this.#repairedAt < repairIntervalMs) return;
    const pod = this.#options.pod();
    if (isFinished(pod)) return;
    if (!this.#reduction.isWhole && now - this.#refusedAt >= refusedIntervalMs)
      this.#reduction.reset();
    if (!this.#patch(pod)) return;
    this.#repairedAt = now;
    this.#start();
  }

  /** Call this when the API server has deleted the pod's object. Nothing is written afterwards. */
  objectDeleted(): void {
    this.#isDeleted = true;
    this.#pauseEnd?.abort();
  }

  /** Resolves when nothing is left to write. */
  async idle(): Promise<void> {
    while (this.#writing) await this.#writing;
  }

  /**
   * Writes a terminal phase that the API does not have yet, without waiting for the end of a pause. Resolves when the API has
   * it.
   */
  async flushEnd(): Promise<void> {
    if (!this.#isEnd || isFinished(this.#options.pod())) return;
    this.#pauseEnd?.abort();
    this.#start();
    await this.idle();
  }

  #startTime(status: PodStatus): string {
    const times = [this.#wanted?.startTime, status.startTime];
    // A provider's invalid time must not stay.
    const known = times.find((time) => !Number.isNaN(Date.parse(time ?? "")));
    return known ?? wireTime(this.#options.clock.now());
  }

  /** Whether the status to write has a terminal phase. */
  get #isEnd(): boolean {
    return isFinished({ status: this.#wanted ?? {} });
  }

  /** Whether the newest known version of the pod is outdated on the API server. */
  get #isOutdated(): boolean {
    return this.#outdated !== undefined && versionOf(this.#options.pod()) <= this.#outdated;
  }

  #start(): void {
    if (this.#isDeleted) return;
    if (this.#mayWaitMs < this.#waitsMs) this.#pauseEnd?.abort();
    this.#isDirty = true;
    this.#writing ??= this.#run().finally(() => {
      this.#writing = undefined;
      if (this.#isDirty && !this.#options.signal.aborted) this.#start();
    });
  }

  async #run(): Promise<void> {
    const { logger, signal } = this.#options;
    let [failures, conflicts] = [0, 0];
    while (this.#isDirty && !this.#isDeleted && !signal.aborted) {
      if (failures === 0) await this.#waitForMore();
      if (this.#isDeleted || signal.aborted) return;
      this.#isDirty = false;
      try {
        if (this.#isOutdated && !(await this.#catchUp())) return this.#leaveGone();
        await this.#writeOnce();
        failures = conflicts = 0;
      } catch (error) {
        if (signal.aborted || isNotFound(error)) return;
        if (isOtherPod(error)) return this.#leaveGone();
        if (isRefusal(error) && !this.#refused(error)) continue;
        if (isConflict(error)) {
          conflicts++;
          if (conflicts >= maxConflicts && !this.#isEnd) return; // other clients keep writing it
        }
        this.#isDirty = true;
        if (isConflict(error) && conflicts === 1) continue;
        logger.warn("Could not write a pod's status", { err: error });
        await this.#sleep(backoffDelay(failures++, backoff, error));
      }
    }
  }

  /** Resolves when the status must not wait, or has waited. A status that may wait for less time starts a new, shorter wait. */
  async #waitForMore(): Promise<void> {
    let lastMs = Infinity;
    for (let ms = this.#mayWaitMs; ms > 0 && ms < lastMs; ms = this.#mayWaitMs) {
      this.#waitsMs = lastMs = ms;
      await this.#sleep(ms);
    }
    this.#waitsMs = 0;
  }

  /** How long the status may wait, milliseconds. A condition of the library's own must not wait. */
  get #mayWaitMs(): number {
    if (!this.#wanted || this.#ownCondition) return 0;
    return mayWaitMs(this.#wanted, this.#options.pod());
  }

  /**
   * Waits for the version of the pod that caused a conflict, and reads the pod if the watch is late. Without permission to read
   * pods, it relies on the watch.
   *
   * @returns false if the pod is gone
   */
  async #catchUp(): Promise<boolean> {
    await this.#waitForWatch(watchDelayMs);
    try {
      if (this.#isOutdated && !this.#isDeleted) return await this.#readAgain();
    } catch (error) {
      if (!K8sError.is(error, "K8S_FORBIDDEN")) throw error;
      await this.#waitForWatch(backoff.maxMs);
    }
    return !this.#isDeleted;
  }

  /** Resolves when a newer version of the pod is known, {@link StatusWriter.flushEnd} is called, or the time has passed. */
  async #waitForWatch(ms: number): Promise<void> {
    this.#isWaitingForWatch = true;
    await this.#sleep(ms);
    this.#isWaitingForWatch = false;
  }

  /** Reads the pod from the API. @returns false if another pod has its name by now */
  async #readAgain(): Promise<boolean> {
    const { client, pod, signal } = this.#options;
    const { namespace, name, uid } = pod().metadata;
    const found = await client.get<Pod>(paths.pods(namespace, name), { signal });
    if (found.metadata.uid !== uid) return false;
    this.#answered(found);
    return true;
  }

  #answered(pod: Pod): void {
    dropManagedFields(pod);
    this.#options.onAnswer(pod);
  }

  /** The watch has delivered the deletion of this pod, or will do so soon. */
  #leaveGone(): void {
    this.#options.logger.debug("Did not write a pod's status: the pod is gone");
  }

  async #sleep(ms: number): Promise<void> {
    const { clock, signal } = this.#options;
    this.#pauseEnd = new AbortController();
    const end = AbortSignal.any([this.#pauseEnd.signal, signal]);
    await pause(ms, clock, end);
    this.#pauseEnd = undefined;
  }

  /**
   * Leaves out fields that the API server may refuse. If it also refuses the condition that reports the refusal, drops that
   * condition silently.
   *
   * @returns whether to pause and then try the complete status again
   */
  #refused(error: unknown): boolean {
    const wanted = this.#wanted;
    if (!wanted || this.#reduction.isNothing) {
      this.#ownCondition = undefined;
      return false;
    }
    if (this.#reduction.isWhole) {
      this.#refusedAt = this.#options.clock.monotonic();
      this.#options.onRefused(error);
    }
    this.#isDirty = this.#reduction.reduce(error, wanted);
    if (this.#isDirty) return false;
    this.#reduction.reset(); // only reached for a terminal status
    return true;
  }

  #patch(pod: Pod): StatusPatch | undefined {
    const own = this.#ownCondition;
    const current = pod.status ?? {};
    const wanted = this.#reduction.isNothing ? current : (this.#wanted ?? current);
    const others = (wanted.conditions ?? []).filter(({ type }) => type !== own?.type);
    const patch = statusPatch(pod, own ? { ...wanted, conditions: [...others, own] } : wanted, {
      observedGeneration: this.#options.observedGeneration(),
      now: wireTime(this.#options.clock.now()),
      annotations: this.#reduction.isNothing ? {} : this.#annotations,
    });
    return this.#reduction.isNothing ? patch : this.#reduction.of(patch);
  }

  async #writeOnce(): Promise<void> {
    const { client, pod: current, signal } = this.#options;
    const pod = current();
    if (isFinished(pod)) return;
    const patch = this.#patch(pod);
    if (!patch) return;
    const { namespace, name } = pod.metadata;
    const path = paths.pods(namespace, name, "status");
    try {
      this.#answered(await client.patch<Pod>(path, patch, "strategic", { signal }));
    } catch (error) {
      if (isConflict(error)) this.#outdated = versionOf(pod);
      throw error;
    }
  }
}
