import { backoffDelay, errorText, hasCode, type Clock, type Logger } from "@kip/base";
import { dropManagedFields, paths, wireTime, type ApiClient } from "@kip/k8s-client";
import type { Pod, PodCondition, PodStatus } from "@kip/k8s-types";
import { isFinished } from "./pod-changes.ts";
import { statusPatch } from "./status-patch.ts";

/** Options of {@link StatusWriter}. */
export interface StatusWriterOptions {
  readonly client: ApiClient;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The pod as the API has it, by what is known here. */
  readonly pod: () => Pod;
  /** Told of the pod that a write answered. */
  readonly onWritten: (pod: Pod) => void;
  /** Told of a status that the API server does not take; it is not tried again. */
  readonly onRefused: (error: unknown) => void;
  /** Generation of the pod that the provider has accepted. */
  readonly observedGeneration: () => number | undefined;
  readonly signal: AbortSignal;
}

const backoff = { initialMs: 200, maxMs: 30_000 };

/** Conflicts in a row after which a status is left to the next sweep. */
const maxConflicts = 4;

/** A status that somebody else keeps changing is corrected this often at most, milliseconds. */
const repairIntervalMs = 10_000;

/**
 * Writes one pod's status: one request at a time, always the latest status, and none at all if the
 * API has it already. A finished pod's status is never written again.
 */
export class StatusWriter {
  readonly #options: StatusWriterOptions;
  #wanted: PodStatus | undefined;
  #note: PodCondition | undefined;
  #annotations: Readonly<Record<string, string>> = {};
  #isDirty = false;
  #writing: Promise<void> | undefined;
  #repairedAt = Number.NEGATIVE_INFINITY;

  constructor(options: StatusWriterOptions) {
    this.#options = options;
  }

  /** Brings the API's status to this one, and the pod's annotations to these; its others stay. */
  write(status: PodStatus, annotations: Readonly<Record<string, string>> = {}): void {
    this.#wanted = status;
    this.#annotations = annotations;
    this.#start();
  }

  /** Sets a condition of the library's own, beside the status. */
  note(condition: PodCondition): void {
    this.#note = condition;
    this.#start();
  }

  /**
   * Something that rides along with the status changed. Of a pod that ran before this process did, and
   * whose provider has said nothing yet, the API's own status stays.
   */
  refresh(): void {
    const isStarted = (this.#options.pod().status?.phase ?? "Pending") !== "Pending";
    if (this.#wanted || isStarted) this.#start();
  }

  /** The API's pod changed: if the status is not ours any more, it is written again. */
  repair(): void {
    if (!this.#wanted || this.#writing) return;
    const now = this.#options.clock.monotonic();
    if (now - this.#repairedAt < repairIntervalMs) return;
    const pod = this.#options.pod();
    if (isFinished(pod) || !statusPatch(pod, this.#wanted)) return;
    this.#repairedAt = now;
    this.#start();
  }

  /** Resolves when nothing is left to write. */
  async idle(): Promise<void> {
    while (this.#writing) await this.#writing;
  }

  #start(): void {
    this.#isDirty = true;
    this.#writing ??= this.#run().finally(() => {
      this.#writing = undefined;
      if (this.#isDirty && !this.#options.signal.aborted) this.#start();
    });
  }

  async #run(): Promise<void> {
    const { clock, logger, signal } = this.#options;
    for (let failures = 0; this.#isDirty && !signal.aborted;) {
      this.#isDirty = false;
      try {
        await this.#writeOnce();
        failures = 0;
      } catch (error) {
        if (signal.aborted || hasCode(error, "K8S_NOT_FOUND")) return;
        if (hasCode(error, "K8S_INVALID")) {
          this.#refused(error);
          continue;
        }
        // Another pod has the name, which we shall hear of; or the server was only too busy writing.
        if (hasCode(error, "K8S_CONFLICT") && failures === maxConflicts) return;
        logger.warn("Could not write a pod's status", { cause: errorText(error) });
        this.#isDirty = true;
        await clock.sleep(backoffDelay(failures++, backoff, error), signal).catch(() => {}); // stopped
      }
    }
  }

  /** What tells of a refusal is dropped without a word if it is refused as well. */
  #refused(error: unknown): void {
    const wasWanted = this.#wanted !== undefined;
    this.#wanted = undefined;
    this.#annotations = {};
    if (wasWanted) this.#options.onRefused(error);
    else this.#note = undefined;
  }

  async #writeOnce(): Promise<void> {
    const { client, pod: current, signal } = this.#options;
    const pod = current();
    if (isFinished(pod)) return;
    const wanted = this.#wanted ?? pod.status ?? {};
    const note = this.#note;
    const others = (wanted.conditions ?? []).filter(({ type }) => type !== note?.type);
    const patch = statusPatch(pod, note ? { ...wanted, conditions: [...others, note] } : wanted, {
      observedGeneration: this.#options.observedGeneration(),
      now: wireTime(this.#options.clock.now()),
      annotations: this.#annotations,
    });
    if (!patch) return;
    const { namespace = "", name = "" } = pod.metadata ?? {};
    const path = paths.pods(namespace, name, "status");
    const written = await client.patch<Pod>(path, patch, "strategic", { signal });
    dropManagedFields(written);
    this.#options.onWritten(written);
  }
}
