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
  /** How one probe went. */
  probed(kind: ProbeKind, isSuccess: boolean): void;
  /** The container must be killed; the message is for the Killing event, the grace period is the probe's own. */
  failed(message: string, graceSeconds: number | undefined): void;
}

/** Options of {@link startProbes}. */
export interface ProbeOptions {
  readonly container: DesiredContainer;
  readonly target: CheckTarget;
  /** When the container's process began. */
  readonly startedAtMs: number;
  /** Whether an earlier life of the agent saw it started. */
  readonly isStarted: boolean;
  readonly listener: ProbeListener;
  readonly events: PodEvents;
  readonly clock: Clock;
}

/** Probes that are being made. */
export interface RunningProbes {
  /** Ends those that can have the container killed: it is being stopped. */
  endKilling(): void;
  /** Ends all. */
  end(): void;
}

/**
 * Probes a running container as the kubelet does: the others wait for the startup probe; a container
 * without a probe of a kind passes it. The only thing on the cell that runs by the clock.
 */
export function startProbes(options: ProbeOptions): RunningProbes {
  const { container, listener } = options;
  const stop = new AbortController();
  const stopKilling = new AbortController();
  const killing = AbortSignal.any([stop.signal, stopKilling.signal]);
  // A probe that was stopped has no result.
  run().catch(() => {});
  return { end: () => stop.abort(), endKilling: () => stopKilling.abort() };

  async function run(): Promise<void> {
    if (container.startupProbe && !options.isStarted) {
      const verdict = await probeUntilVerdict("Startup", container.startupProbe);
      if (verdict === "failure") return killed("startup", container.startupProbe);
    }
    listener.started();
    await Promise.all([watchReadiness(), watchLiveness()]);
  }

  async function probeUntilVerdict(kind: ProbeKind, probe: DesiredProbe): Promise<ProbeVerdict> {
    for await (const verdict of verdicts(kind, probe)) return verdict;
    return "success";
  }

  async function watchReadiness(): Promise<void> {
    if (!container.readinessProbe) return listener.ready(true);
    for await (const verdict of verdicts("Readiness", container.readinessProbe))
      listener.ready(verdict === "success");
  }

  async function watchLiveness(): Promise<void> {
    if (!container.livenessProbe) return;
    for await (const verdict of verdicts("Liveness", container.livenessProbe)) {
      if (verdict === "failure") return killed("liveness", container.livenessProbe);
    }
  }

  function killed(kind: string, probe: DesiredProbe): void {
    const message = `Container ${container.name} failed ${kind} probe, will be restarted`;
    listener.failed(message, probe.terminationGracePeriodSeconds);
  }

  async function* verdicts(kind: ProbeKind, probe: DesiredProbe): AsyncGenerator<ProbeVerdict> {
    const tally = new ProbeTally({
      ...(probe.successThreshold !== undefined && { success: probe.successThreshold }),
      ...(probe.failureThreshold !== undefined && { failure: probe.failureThreshold }),
    });
    const signal = kind === "Readiness" ? stop.signal : killing;
    const first = options.startedAtMs + (probe.initialDelaySeconds ?? 0) * 1000;
    await sleep(first - options.clock.now(), signal);
    for (;;) {
      const begin = options.clock.monotonic();
      const result = await runOnce(probe, signal);
      signal.throwIfAborted();
      listener.probed(kind, result.isSuccess);
      if (!result.isSuccess) {
        options.events.warning(
          "Unhealthy",
          `${kind} probe failed: ${result.output}`,
          container.name,
        );
      }
      const verdict = tally.add(result.isSuccess ? "success" : "failure");
      if (verdict) yield verdict;
      await sleep((probe.periodSeconds ?? 10) * 1000 - (options.clock.monotonic() - begin), signal);
    }
  }

  async function runOnce(probe: DesiredProbe, signal: AbortSignal): Promise<CheckResult> {
    const limit = new AbortController();
    const done = new AbortController();
    void pause((probe.timeoutSeconds ?? 1) * 1000, options.clock, done.signal).then((isOver) => {
      if (isOver) limit.abort();
    });
    try {
      return await runCheck(probe, options.target, AbortSignal.any([signal, limit.signal]));
    } finally {
      done.abort();
      limit.abort(); // what still listens to it would be kept as long as the other signal
    }
  }

  async function sleep(ms: number, signal: AbortSignal): Promise<void> {
    await options.clock.sleep(Math.max(0, ms), signal);
  }
}
