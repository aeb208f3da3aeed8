import type { Clock, Logger } from "@kip/base";
import { wireTime, type RecordedEvent } from "@kip/k8s-client";
import type { Pod, PodCondition } from "@kip/k8s-types";

/** Options of {@link ProviderProblems}. */
export interface ProviderProblemsOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  /** The pod as the API has it. */
  readonly pod: () => Pod;
  /** Sets the condition on the pod. */
  readonly note: (condition: PodCondition) => void;
  readonly recordEvent: (pod: Pod, event: RecordedEvent) => void;
  /** When a call that has not returned is reported, milliseconds. */
  readonly slowCallMs: number;
  /** Ends all watches of calls. */
  readonly signal: AbortSignal;
}

/** Condition of a pod whose provider fails it; there only once it did. */
const conditionType = "virtual-kubelet.io/ProviderReady";
const maxMessageLength = 1024;

/** Why the watch of a call ends. One for all: an error for each costs more than the rest of it. */
const inTime = new Error("In time");

/** Shows on one pod what its provider does wrong with it: an event, and a condition until it is better. */
export class ProviderProblems {
  readonly #options: ProviderProblemsOptions;
  #isShown = false;

  constructor(options: ProviderProblemsOptions) {
    this.#options = options;
  }

  /** The provider does with this pod what it should not. */
  report(reason: string, message: string): void {
    const { logger, pod, recordEvent } = this.#options;
    logger.warn("The provider misbehaved", { reason, cause: message });
    recordEvent(pod(), { type: "Warning", reason, message });
    this.#note("False", { reason, message: message.slice(0, maxMessageLength) });
    this.#isShown = true;
  }

  /** The provider did well. */
  clear(): void {
    // Or an earlier process reported a problem, and did not see it end.
    const known = this.#options
      .pod()
      .status?.conditions?.find(({ type }) => type === conditionType);
    if (!this.#isShown && known?.status !== "False") return;
    this.#isShown = false;
    this.#note("True");
  }

  /**
   * Waits for a call of the provider as long as it takes; reports it when that is long.
   *
   * @param graceSeconds what it may take longer than other calls
   */
  async watch(call: string, start: () => Promise<void>, graceSeconds = 0): Promise<void> {
    const { clock, slowCallMs, signal } = this.#options;
    const done = new AbortController();
    const end = (): void => done.abort(inTime);
    signal.addEventListener("abort", end, { once: true });
    clock.sleep(slowCallMs + graceSeconds * 1000, done.signal).then(
      () => {
        const message = `The provider has not answered "${call}" for ${slowCallMs / 1000} s`;
        this.report("ProviderNotResponding", message);
      },
      () => {}, // in time
    );
    try {
      await start();
    } finally {
      end();
      signal.removeEventListener("abort", end);
    }
  }

  #note(status: "True" | "False", why: Pick<PodCondition, "reason" | "message"> = {}): void {
    const lastTransitionTime = wireTime(this.#options.clock.now());
    this.#options.note({ type: conditionType, status, lastTransitionTime, ...why });
  }
}
