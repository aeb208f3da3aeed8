import { pause, type Clock, type Logger } from "@kip/base";
import { wireTime, type RecordedEvent } from "@kip/k8s-client";
import type { Pod, PodCondition } from "@kip/k8s-types";

/** Options of {@link ProviderProblems}. */
export interface ProviderProblemsOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  /** The pod as the API has it. */
  readonly pod: () => Pod;
  /** Sets the condition on the pod. */
  readonly setCondition: (condition: PodCondition) => void;
  readonly recordEvent: (pod: Pod, event: RecordedEvent) => void;
  /** How long a call may take before it is reported, milliseconds. */
  readonly slowCallMs: number;
  /** How long requests to the API server are waiting at the moment, milliseconds. */
  readonly apiWaitMs: () => number;
  /** Ends the monitoring of all calls. */
  readonly signal: AbortSignal;
}

/** The condition that a pod gets after a failed call of its provider. */
const conditionType = "virtual-kubelet.io/ProviderReady";
const maxMessageLength = 1024;
/**
 * If requests wait at least this long, a slow call is not the provider's fault, because its own requests also wait.
 * Milliseconds.
 */
const longApiWaitMs = 1000;

/** Reason for cancelling timers, created once: an error with a stack trace for each call is measurably slow. */
const timerCancelled = new Error("The call has ended");

/** Shows the provider's failures on one pod: an event for each, and a condition until a call succeeds. */
export class ProviderProblems {
  readonly #options: ProviderProblemsOptions;
  #isShown = false;

  constructor(options: ProviderProblemsOptions) {
    this.#options = options;
  }

  /** Records an event and sets the condition to False. */
  report(reason: string, message: string): void {
    const { logger, pod, recordEvent } = this.#options;
    logger.warn("The provider failed a pod", { reason, detail: message });
    recordEvent(pod(), { type: "Warning", reason, message });
    this.#setCondition("False", { reason, message: message.slice(0, maxMessageLength) });
    this.#isShown = true;
  }

  /** Sets the condition to True if a problem was shown. */
  clear(): void {
    // An earlier process may have shown the problem.
    const known = this.#options
      .pod()
      .status?.conditions?.find(({ type }) => type === conditionType);
    if (!this.#isShown && known?.status !== "False") return;
    this.#isShown = false;
    this.#setCondition("True");
  }

  /**
   * Waits for a call of the provider, however long it takes, and reports it if it is slow. Does not report it while requests to
   * the API server have to wait, because an event and a condition for each pod would make them wait even longer.
   *
   * @param graceSeconds additional time for this call
   */
  async watch(call: string, start: () => Promise<void>, graceSeconds = 0): Promise<void> {
    const { slowCallMs, signal } = this.#options;
    const done = new AbortController();
    const end = (): void => done.abort(timerCancelled);
    signal.addEventListener("abort", end, { once: true });
    void this.#reportSlow(call, slowCallMs + graceSeconds * 1000, done.signal);
    try {
      await start();
    } finally {
      end();
      signal.removeEventListener("abort", end);
    }
  }

  async #reportSlow(call: string, limitMs: number, signal: AbortSignal): Promise<void> {
    const { clock, slowCallMs, apiWaitMs } = this.#options;
    if (!(await pause(limitMs, clock, signal))) return;
    while (apiWaitMs() >= longApiWaitMs) if (!(await pause(slowCallMs, clock, signal))) return;
    const message = `The provider has not answered "${call}" for ${slowCallMs / 1000} s`;
    this.report("ProviderNotResponding", message);
  }

  #setCondition(
    status: "True" | "False",
    cause: Pick<PodCondition, "reason" | "message"> = {},
  ): void {
    const lastTransitionTime = wireTime(this.#options.clock.now());
    this.#options.setCondition({ type: conditionType, status, lastTransitionTime, ...cause });
  }
}
