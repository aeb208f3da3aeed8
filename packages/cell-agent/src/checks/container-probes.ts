import { setImmediate } from "node:timers/promises";
import type { DesiredContainer, DesiredProbe } from "@kip/agent-api";
import { pause, type Clock } from "@kip/base";
import type { PodEvents } from "../state/pod-events.ts";
import { runCheck, type CheckResult, type CheckTarget } from "./handlers.ts";
import { ProbeTally, type ProbeVerdict } from "./probe-tally.ts";

/** The kind of a probe, in the kubelet's spelling. */
export type ProbeKind = "Startup" | "Readiness" | "Liveness";

/** Is notified of the probes' results. */
export interface ProbeListener {
  /** The startup probe has succeeded, or there is none, so the container has started. */
  started(): void;
  ready(isReady: boolean): void;
  /** The result of one probe that could be run. */
  probed(kind: ProbeKind, isSuccess: boolean): void;
  /** The container must be killed. The grace period is the probe's own. */
  failed(probe: "liveness" | "startup", graceSeconds: number | undefined): void;
}

/** Options of {@link ContainerProbes}. */
export interface ProbeOptions {
  readonly container: DesiredContainer;
  readonly target: CheckTarget;
  /** When the container's process started, milliseconds since the Unix epoch. */
  readonly startedAtMs: number;
  /** Whether an earlier process of the agent recorded that it has started. */
  readonly isStarted: boolean;
  readonly listener: ProbeListener;
  readonly events: PodEvents;
  readonly clock: Clock;
  /** Ends all probes. */
  readonly signal: AbortSignal;
}

/**
 * Probes a running container like the kubelet. Other probes wait for the startup probe. A container without a probe of a kind
 * passes it. Nothing else on the cell runs at intervals for the pod's containers.
 */
export class ContainerProbes {
  readonly #options: ProbeOptions;
  readonly #stopKilling = new AbortController();
  /** Aborts the probes that can cause the container to be killed. */
  readonly #killing: AbortSignal;

  constructor(options: ProbeOptions) {
    this.#options = options;
    this.#killing = AbortSignal.any([options.signal, this.#stopKilling.signal]);
  }

  /** Ends the probes that can cause the container to be killed, because it is being stopped. */
  endKilling(): void {
    this.#stopKilling.abort(isStopped);
  }

  /** Probes until the signal aborts. */
  async run(): Promise<void> {
    const { clock, signal } = this.#options;
    try {
      if (await this.#hasStarted())
        await Promise.all([this.#watchReadiness(), this.#watchLiveness()]);
    } catch (error) {
      if (!this.#killing.aborted) throw error; // otherwise the probe was ended and has no result
    }
    await pause(Number.POSITIVE_INFINITY, clock, signal);
  }

  async #hasStarted(): Promise<boolean> {
    const { container, isStarted, listener } = this.#options;
    const { startupProbe } = container;
    if (startupProbe && !isStarted) {
      for await (const verdict of this.#verdicts("Startup", startupProbe, this.#killing)) {
        if (verdict === "success") break;
        this.#kill("startup", startupProbe);
        return false;
      }
    }
    listener.started();
    return true;
  }

  async #watchReadiness(): Promise<void> {
    const { container, listener, signal } = this.#options;
    if (!container.readinessProbe) return listener.ready(true);
    for await (const verdict of this.#verdicts("Readiness", container.readinessProbe, signal))
      listener.ready(verdict === "success");
  }

  async #watchLiveness(): Promise<void> {
    const { livenessProbe } = this.#options.container;
    if (!livenessProbe) return;
    for await (const verdict of this.#verdicts("Liveness", livenessProbe, this.#killing))
      if (verdict === "failure") return this.#kill("liveness", livenessProbe);
  }

  #kill(kind: "liveness" | "startup", probe: DesiredProbe): void {
    this.#options.listener.failed(kind, probe.terminationGracePeriodSeconds);
  }

  async *#verdicts(
    kind: ProbeKind,
    probe: DesiredProbe,
    signal: AbortSignal,
  ): AsyncGenerator<ProbeVerdict> {
    const { startedAtMs, clock } = this.#options;
    const tally = new ProbeTally({
      success: probe.successThreshold,
      failure: probe.failureThreshold,
    });
    const first = startedAtMs + (probe.initialDelaySeconds ?? 0) * 1000;
    await clock.sleep(Math.max(0, first - clock.now()), signal);
    for (;;) {
      const begin = clock.monotonic();
      const result = await this.#probe(kind, probe, signal);
      const verdict = result && tally.add(result);
      if (verdict) yield verdict;
      const restMs = (probe.periodSeconds ?? 10) * 1000 - (clock.monotonic() - begin);
      await clock.sleep(Math.max(0, restMs), signal);
    }
  }

  /**
   * Probes once, and reports the result. As in the kubelet, a probe that could not be run, even after retries, has no result
   * and does not count. That includes a command that does not exist. A probe that takes too long has failed.
   */
  async #probe(
    kind: ProbeKind,
    probe: DesiredProbe,
    signal: AbortSignal,
  ): Promise<ProbeVerdict | undefined> {
    const { container, listener, events } = this.#options;
    let result = await this.#check(probe, signal);
    for (let tries = 1; result.errorState && tries < maxAttempts && !signal.aborted; tries++)
      result = await this.#check(probe, signal);
    const { isSuccess, output, errorState, isWarning } = result;
    signal.throwIfAborted();
    const { name } = container;
    if (errorState !== undefined) {
      const text = `${kind} probe errored and resulted in ${errorState} state: ${output}`;
      events.warning("Unhealthy", text, name);
      return undefined;
    }
    listener.probed(kind, isSuccess);
    if (isWarning === true)
      events.warning("ProbeWarning", `${kind} probe warning: ${output}`, name);
    if (isSuccess) return "success";
    events.warning("Unhealthy", `${kind} probe failed: ${output}`, name);
    return "failure";
  }

  /** A command's time limit starts with its process. On a busy machine, starting the process may take longer than the limit. */
  async #check(probe: DesiredProbe, signal: AbortSignal): Promise<CheckResult> {
    const { target, clock } = this.#options;
    const limitMs = (probe.timeoutSeconds ?? 1) * 1000;
    const limit = new AbortController();
    let timer = new AbortController();
    const restart = (ms: number): void => {
      timer.abort();
      timer = new AbortController();
      void pause(ms, clock, timer.signal).then(async (isOver) => {
        if (!isOver) return;
        await setImmediate(); // first read what arrived while this process was busy
        limit.abort();
      });
    };
    restart(probe.exec ? beginLimitMs + limitMs : limitMs);
    try {
      const onBegun = (): void => restart(limitMs);
      const either = AbortSignal.any([signal, limit.signal]);
      return await runCheck(probe, target, either, { limitMs, onBegun });
    } finally {
      timer.abort();
      limit.abort(); // otherwise its listeners would be kept as long as the other signal
    }
  }
}

/** How often to try a probe that cannot be run. The kubelet's number. */
const maxAttempts = 3;
/**
 * How long a command's process may take to start, in addition to the command's own limit. The kubelet's limit for requests to a
 * runtime.
 */
const beginLimitMs = 120_000;
/** Created once, because aborting without a reason creates one with a stack trace. */
const isStopped = new DOMException("The container is being stopped", "AbortError");
