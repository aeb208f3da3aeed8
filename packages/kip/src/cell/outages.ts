import type { Clock } from "@kip/base";
import { CloudError, type LaunchType } from "@kip/cloud";
import { K8sError } from "@kip/k8s-client";
import type { CellStep } from "./cell-step.ts";

/** How often one of the steps that wait is repeated, milliseconds, however many wait. */
const trialMs = 10_000;
/** How long a step waits at least, milliseconds: what fails for one pod alone is not repeated with each success of others. */
const firmMs = 5000;
/** After a success of its kind, a refusal that may be about one pod alone is none of an outage for so long, milliseconds. */
const quietMs = 60_000;
/** How many steps are repeated when one has succeeded: more than one, so that their rate grows as long as they succeed. */
const perSuccess = 2;

/** A step of one pod that failed because of an outage. */
export interface FailedStep {
  /** Ends its pause; returns false if it no longer waits. */
  readonly retry: () => boolean;
  /** Whether a try costs money though it fails: then it is repeated only after a success of another pod. */
  readonly isCostly: boolean;
}

interface WaitingStep extends FailedStep {
  readonly failedAtMs: number;
}

/** The waiting steps of one kind, by worker, the oldest failure first. */
interface Outage {
  readonly waiting: Map<object, WaitingStep>;
  isTrialDue: boolean;
  /** When a step of the kind last succeeded, monotonic milliseconds. */
  succeededAtMs: number;
}

/**
 * Ends the pauses of steps that failed because the API server or the cloud was away: these grow to minutes, and no pod should wait
 * for so long after an outage. Kept by kind of step, as a cloud may refuse launches alone.
 *
 * Invariants:
 * - While steps of a kind wait, one of them is repeated every ten seconds, in turn: an outage costs no more calls for more pods.
 * - Each success repeats two of them: the rate grows with each answer, and no further than the other side answers.
 * - A step for which the other side said when to come back is left alone, but for the few seconds that each step waits.
 * - A step of which each try may cost money waits for a success, or for its own pause.
 */
export class Outages {
  readonly #clock: Clock;
  readonly #ofKind = new Map<CellStep["kind"], Outage>();
  readonly #stopped = new AbortController();

  constructor({ clock }: { readonly clock: Clock }) {
    this.#clock = clock;
  }

  /** A step of this worker failed. */
  failed(kind: CellStep["kind"], error: unknown, worker: object, step: FailedStep): void {
    const outage = this.#outageOf(kind);
    const failedAtMs = this.#clock.monotonic();
    outage.waiting.delete(worker); // the newest failure is last
    const isQuiet = failedAtMs - outage.succeededAtMs >= quietMs;
    if (!isAway(error) && !(isQuiet && refusesAll(error))) return;
    outage.waiting.set(worker, { ...step, failedAtMs });
    this.#tryLater(outage);
  }

  /** A step of this kind succeeded. */
  succeeded(kind: CellStep["kind"]): void {
    const outage = this.#outageOf(kind);
    outage.succeededAtMs = this.#clock.monotonic();
    this.#retry(outage, { count: perSuccess, isTrial: false });
  }

  #outageOf(kind: CellStep["kind"]): Outage {
    const known = this.#ofKind.get(kind);
    if (known) return known;
    const outage = { waiting: new Map(), isTrialDue: false, succeededAtMs: -Infinity };
    this.#ofKind.set(kind, outage);
    return outage;
  }

  /** Repeats nothing more. */
  stop(): void {
    this.#stopped.abort();
  }

  /** Repeats those that have waited for longest. */
  #retry(
    { waiting }: Outage,
    { count, isTrial }: { readonly count: number; readonly isTrial: boolean },
  ): void {
    const latestMs = this.#clock.monotonic() - firmMs;
    let left = count;
    for (const [worker, { failedAtMs, retry, isCostly }] of waiting) {
      if (left === 0 || failedAtMs > latestMs) return;
      if (isTrial && isCostly) continue;
      waiting.delete(worker);
      if (retry()) left--;
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

/** Whether the API server or the cloud does not answer anyone, or not kip. A Cell resource that is being deleted comes back, too. */
function isAway(error: unknown): boolean {
  if (CloudError.is(error, "CLOUD_UNAVAILABLE")) return error.retryAfterMs === undefined;
  if (!K8sError.is(error) || error.retryAfterMs !== undefined) return false;
  return error.code === "K8S_UNAVAILABLE" || error.httpStatus === 405;
}

/** Whether the other side may refuse the calls of all pods alike, for lack of rights or because they are too many. */
function refusesAll(error: unknown): boolean {
  const isOne =
    CloudError.is(error, "CLOUD_AUTH", "CLOUD_THROTTLED", "CLOUD_UNAVAILABLE") ||
    K8sError.is(error, "K8S_UNAUTHORIZED", "K8S_TOO_MANY_REQUESTS", "K8S_UNAVAILABLE");
  return isOne && (error.retryAfterMs ?? 0) <= firmMs;
}

/** Whether each try of a step may pay for a machine: a dedicated one may be on a host that is allocated before the launch. */
export function isCostly(
  { kind }: CellStep,
  cell: { readonly spec: { readonly launchType: LaunchType } } | undefined,
): boolean {
  return kind === "launch" && cell?.spec.launchType === "dedicated";
}
