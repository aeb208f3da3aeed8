import type { Clock } from "@kip/base";
import { CloudError, type LaunchType } from "@kip/cloud";
import { K8sError } from "@kip/k8s-client";
import type { CellStep } from "./cell-step.ts";

/** How often to repeat one of the waiting steps, milliseconds, however many are waiting. */
const trialMs = 10_000;
/**
 * Longest time between two trials of steps that lack a permission, milliseconds. Only a person can grant it, so this time
 * doubles from one trial to the next.
 */
const longestAuthMs = 300_000;
/**
 * Minimum time that a step waits, milliseconds. A step that fails for only one pod is not repeated with each success of others.
 */
const firmMs = 5000;
/**
 * If no step of a kind has succeeded for this time, milliseconds, a refusal that may concern only one pod also counts as an
 * outage.
 */
const quietMs = 60_000;
/** Number of steps to repeat after a success: more than one, so that the rate grows while they succeed. */
const perSuccess = 2;

/** A step of one pod that failed because of an outage. */
export interface FailedStep {
  /** Ends its pause. Returns false if it is no longer waiting. */
  readonly retry: () => boolean;
  /** Whether an attempt costs money even if it fails. Then it is only repeated after a success of another pod. */
  readonly isCostly: boolean;
}

interface WaitingStep extends FailedStep {
  readonly failedAtMs: number;
  /** Whether kip lacks a permission for it. */
  readonly isForbidden: boolean;
}

/** The waiting steps of one kind, by worker, the oldest failure first. */
interface Outage {
  readonly waiting: Map<object, WaitingStep>;
  isTrialDue: boolean;
  /** Number of trials of steps that lack a permission since the last success, and the earliest time of the next one. */
  authTrials: number;
  authTrialAtMs: number;
  /** When a step of the kind last succeeded, monotonic milliseconds. */
  succeededAtMs: number;
}

/**
 * Ends the pauses of steps that failed because the API server or the cloud was unavailable. These pauses grow to minutes, and
 * no pod should wait that long after an outage. Tracked by kind of step, because a cloud may only refuse launches.
 *
 * Invariants:
 * - While steps of a kind are waiting, one of them is repeated every ten seconds, in turn. So an outage does not cost more
 *   calls for more pods.
 * - For steps that lack a permission at the cloud, this time grows to five minutes.
 * - Each success repeats two of them. The rate grows with each response, and no faster than the other side responds.
 * - If the other side named a time to come back, the step is left alone, unless the time is within the few seconds that each
 *   step waits.
 * - A step whose attempts may cost money waits for a success, or for its own pause.
 */
export class Outages {
  readonly #clock: Clock;
  readonly #ofKind = new Map<CellStep["kind"], Outage>();
  readonly #stopped = new AbortController();

  constructor({ clock }: { readonly clock: Clock }) {
    this.#clock = clock;
  }

  /** Records that a step of this worker failed. */
  failed(kind: CellStep["kind"], error: unknown, worker: object, step: FailedStep): void {
    const outage = this.#outageOf(kind);
    const failedAtMs = this.#clock.monotonic();
    outage.waiting.delete(worker); // the newest failure is last
    const isQuiet = failedAtMs - outage.succeededAtMs >= quietMs;
    if (!isAway(error) && !(isQuiet && refusesAll(error))) return;
    const isForbidden = CloudError.is(error, "CLOUD_AUTH");
    outage.waiting.set(worker, { ...step, failedAtMs, isForbidden });
    this.#tryLater(outage);
  }

  /** Records that a step of this kind succeeded. */
  succeeded(kind: CellStep["kind"]): void {
    const outage = this.#outageOf(kind);
    outage.succeededAtMs = this.#clock.monotonic();
    outage.authTrials = 0;
    outage.authTrialAtMs = -Infinity;
    this.#retry(outage, { count: perSuccess, isTrial: false });
  }

  #outageOf(kind: CellStep["kind"]): Outage {
    const known = this.#ofKind.get(kind);
    if (known) return known;
    const outage = {
      waiting: new Map(),
      isTrialDue: false,
      authTrials: 0,
      authTrialAtMs: -Infinity,
      succeededAtMs: -Infinity,
    };
    this.#ofKind.set(kind, outage);
    return outage;
  }

  /** Stops repeating steps. */
  stop(): void {
    this.#stopped.abort();
  }

  /** Repeats the steps that have waited longest. */
  #retry(
    outage: Outage,
    { count, isTrial }: { readonly count: number; readonly isTrial: boolean },
  ): void {
    const { waiting } = outage;
    const nowMs = this.#clock.monotonic();
    let left = count;
    for (const [worker, { failedAtMs, retry, isCostly, isForbidden }] of waiting) {
      if (left === 0 || failedAtMs > nowMs - firmMs) return;
      if (isTrial && (isCostly || (isForbidden && nowMs < outage.authTrialAtMs))) continue;
      waiting.delete(worker);
      if (!retry()) continue;
      left--;
      if (isTrial && isForbidden)
        outage.authTrialAtMs = nowMs + Math.min(longestAuthMs, trialMs * 2 ** ++outage.authTrials);
    }
  }

  #tryLater(outage: Outage): void {
    if (outage.isTrialDue || outage.waiting.size === 0) return;
    outage.isTrialDue = true;
    this.#clock.sleep(trialMs, this.#stopped.signal).then(
      () => {
        outage.isTrialDue = false;
        this.#retry(outage, { count: 1, isTrial: true });
        this.#tryLater(outage);
      },
      () => {}, // kip ends
    );
  }
}

/**
 * Whether the API server or the cloud is unavailable for all clients, or for kip. A Cell resource that is being deleted also
 * comes back.
 */
function isAway(error: unknown): boolean {
  if (CloudError.is(error, "CLOUD_UNAVAILABLE")) return error.retryAfterMs === undefined;
  if (!K8sError.is(error) || error.retryAfterMs !== undefined) return false;
  return error.code === "K8S_UNAVAILABLE" || error.httpStatus === 405;
}

/** Whether the other side may refuse the calls of all pods, because permissions are missing or there are too many calls. */
function refusesAll(error: unknown): boolean {
  const isOne =
    CloudError.is(error, "CLOUD_AUTH", "CLOUD_THROTTLED", "CLOUD_UNAVAILABLE") ||
    K8sError.is(error, "K8S_UNAUTHORIZED", "K8S_TOO_MANY_REQUESTS", "K8S_UNAVAILABLE");
  return isOne && (error.retryAfterMs ?? 0) <= firmMs;
}

/** Whether each attempt of a step may pay for a machine. A dedicated host may be allocated before the launch. */
export function isCostly(
  { kind }: CellStep,
  cell: { readonly spec: { readonly launchType: LaunchType } } | undefined,
): boolean {
  return kind === "launch" && cell?.spec.launchType === "dedicated";
}
