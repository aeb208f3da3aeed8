import { setImmediate } from "node:timers/promises";
import type { DesiredContainer, DesiredProbe } from "@kip/agent-api";
import { pause, type Clock } from "@kip/base";
import type { PodEvents } from "../state/pod-events.ts";
import { runCheck, type CheckResult, type CheckTarget } from "./handlers.ts";
import { ProbeTally, type ProbeVerdict } from "./probe-tally.ts";

/** What a probe is for, as the kubelet spells it. */
export type ProbeKind = "Startup" | "Readiness" | "Liveness";

/** Receives the results of the probes. */
export interface ProbeListener {
  /** The startup probe, or its absence, says that the container has started. */
  started(): void;
  ready(isReady: boolean): void;
  /** How one probe went that could be made. */
  probed(kind: ProbeKind, isSuccess: boolean): void;
  /** The container must be killed; the grace period is the probe's own. */
  failed(probe: "liveness" | "startup", graceSeconds: number | undefined): void;
}

/** Options of {@link ContainerProbes}. */
export interface ProbeOptions {
  readonly container: DesiredContainer;
  readonly target: CheckTarget;
  /** When the container's process began, milliseconds since the epoch. */
  readonly startedAtMs: number;
  /** Whether an earlier life of the agent saw it started. */
  readonly isStarted: boolean;
  readonly listener: ProbeListener;
  readonly events: PodEvents;
  readonly clock: Clock;
  /** Ends all probes. */
  readonly signal: AbortSignal;
}

/**
 * Probes a running container as the kubelet does: the others wait for the startup probe; a container
 * without a probe of a kind passes it. The only thing on the cell that runs by the clock.
 */
export class ContainerProbes {
  readonly #options: ProbeOptions;
  readonly #stopKilling = new AbortController();
  /** Aborts for the probes that can have the container killed. */
  readonly #killing: AbortSignal;

  constructor(options: ProbeOptions) {
    this.#options = options;
    this.#killing = AbortSignal.any([options.signal, this.#stopKilling.signal]);
  }

  /** Ends the probes that can have the container killed: it is being stopped. */
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
      if (!this.#killing.aborted) throw error; // else a probe that was ended: it has no result
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
   * Probes once, and tells how it went. A probe that could not be made, also when tried again, has no result, and does not count, as in
   * the kubelet: also one whose command does not exist. One that takes too long has failed.
   */
  async #probe(
    kind: ProbeKind,
    probe: DesiredProbe,
    signal: AbortSignal,
  ): Promise<ProbeVerdict | undefined> {
    const { container, listener, events } = this.#options;
    let result = await this.#check(probe, signal);
    for (let tries = 1; result.errorState && tries < mostTries && !signal.aborted; tries++)
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

  /** The time that a command has counts from the begin of its process: until then a busy machine may take longer than it has. */
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
        await setImmediate(); // what came while this process was busy is read first
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
      limit.abort(); // what still listens to it would be kept as long as the other signal
    }
  }
}

/** How often a probe is tried that cannot be made; the kubelet's number. */
const mostTries = 3;
/** How long a command may take until its process begins, besides its own limit; the kubelet's limit of requests to a runtime. */
const beginLimitMs = 120_000;
/** Made once: an abort without a reason makes one with a stack trace. */
const isStopped = new DOMException("The container is being stopped", "AbortError");
