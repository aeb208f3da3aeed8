import {
  backoffDelay,
  isCodedError,
  type BackoffOptions,
  type Clock,
  type Logger,
} from "@kip/base";
import { inLaterTurn } from "./later-turns.ts";
import type { Executors, Moment, Plan, StepContext, StepOf } from "./step.ts";

/** A failed step, as passed to {@link ReconcilerOptions.onFailure}. */
export interface StepFailure<Step> {
  readonly step: Step;
  readonly error: unknown;
  /** Failures of this kind with this input since the lane's last success, including this one. */
  readonly failures: number;
  /** Milliseconds until the step may run again, if it is still planned then. */
  readonly delayMs: number;
}

/** Options of {@link Reconciler}. */
export interface ReconcilerOptions<Args, State, Change> {
  readonly initial: State;
  /** Decides what to do next. Pure: the same state and time give the same plan. */
  readonly plan: (state: State, nowMs: number) => Plan<StepOf<Args>>;
  /** Applies a change. Pure, and the only writer of the state; returns the same object if nothing changed. */
  readonly reduce: (state: State, change: Change, now: Moment) => State;
  readonly executors: Executors<Args, State, Change>;
  /** Steps of one lane run one at a time. Different lanes run concurrently. @default one lane for all */
  readonly lane?: ((step: StepOf<Args>) => string) | undefined;
  /**
   * The value that a step's outcome depends on, compared with `Object.is`. A new value resets the failure count and ends the
   * back-off at once. Two cases wait longer: if the server asked for the delay (`retryAfterMs`), the step waits for all of it.
   * If the previous back-off also ended early, the step waits at least `backoff.initialMs`. @default a value that never changes
   */
  readonly input?: ((step: StepOf<Args>) => unknown) | undefined;
  /** The back-off of all steps, or of the given one. */
  readonly backoff: BackoffOptions | ((step: StepOf<Args>) => BackoffOptions);
  /** Whether a success of this step ends the back-off of its lane. @default all successes do */
  readonly isProgress?: ((step: StepOf<Args>) => boolean) | undefined;
  /** Called once for all changes of one turn of the event loop. */
  readonly onChange?: ((state: State) => void) | undefined;
  /**
   * Called when a step failed without having been aborted. May return a change that records the failure. The step's own changes
   * may have removed it from the plan. Its back-off still applies when it is planned again.
   */
  readonly onFailure?: ((failure: StepFailure<StepOf<Args>>) => Change | undefined) | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** A snapshot of one step of a {@link Reconciler}. */
export interface InspectedStep {
  readonly kind: PropertyKey;
  readonly lane: string;
  /**
   * "ending": aborted, but still occupies its lane. "paused": failed, and will run again later. "queued": planned, and waits
   * for its lane or is about to start.
   */
  readonly status: "running" | "ending" | "paused" | "queued";
  /** Failures since the last success of its lane; 0 or more. */
  readonly failures: number;
  /** Milliseconds until a paused step runs again. Only present for paused steps. */
  readonly inMs?: number | undefined;
}

/** A snapshot of a {@link Reconciler}, for people to read. */
export interface Inspection {
  readonly steps: readonly InspectedStep[];
  /** Milliseconds until the next planning if nothing changes. Undefined: never. */
  readonly wakeInMs: number | undefined;
}

/** A step succeeded without changing anything, and the plan still contains it. This is most likely a defect. */
export class NoEffectError extends Error {
  override readonly name = "NoEffectError";
}

interface Running<Step> {
  readonly abort: AbortController;
  readonly done: Promise<void>;
  /** Input with which the step was started. */
  readonly input: unknown;
  /** The step, with the arguments of the newest plan. */
  step: Step;
  listener: ((step: Step) => void) | undefined;
}

/** The back-off of one kind of step. It also holds the failure count, so it is kept until the lane makes progress. */
interface Pause {
  readonly lane: string;
  readonly kind: PropertyKey;
  readonly failures: number;
  readonly untilMs: number;
  /** The input that failed. A changed input ends the pause, but not before `firmUntilMs`. */
  readonly input: unknown;
  readonly firmUntilMs: number;
  /** Whether a change of the input ended the pause early. */
  readonly isShortened: boolean;
}

/** Abort reasons, created once: an error with a stack trace for each plan would cost more than the plan. */
const overtaken = new DOMException("The plan no longer contains this step", "AbortError");
const stopped = new DOMException("The reconciler has stopped", "AbortError");

/** The longest timer, in milliseconds. The reconciler then plans again. */
const longestSleepMs = 86_400_000;

/**
 * Moves something from its actual to its desired state. The reconciler makes a plan from the state, runs the plan's steps,
 * reduces their changes to a new state, and plans again until the plan is empty.
 *
 * Invariants:
 * - Only `reduce` makes a new state. No code sees a half-changed state.
 * - A lane runs one step at a time. An aborted step occupies its lane until it has ended.
 * - A step is aborted as soon as the plan no longer contains its kind in its lane.
 * - A step runs again only after a back-off if it failed, or if it succeeded without changing anything and is still planned.
 *   Other steps and changes of the state do not shorten the back-off. {@link ReconcilerOptions.input},
 *   {@link Reconciler.retryNow} and {@link Reconciler.tryNow} do.
 * - After {@link Reconciler.stop} no executor starts and no change is applied.
 */
export class Reconciler<Args, State, Change> {
  readonly #options: ReconcilerOptions<Args, State, Change>;
  readonly #running = new Map<string, Running<StepOf<Args>>>();
  #pauses: readonly Pause[] = [];
  #state: State;
  #reported: State;
  #timer: AbortController | undefined;
  #wakeAtMs: number | undefined;
  #isFailing = false;
  #isScheduled = false;
  #isStopped = false;
  #settled = Promise.withResolvers<void>();
  #isSettled = false;

  constructor(options: ReconcilerOptions<Args, State, Change>) {
    this.#options = options;
    this.#state = options.initial;
    this.#reported = options.initial;
  }

  /** The newest state. */
  get state(): State {
    return this.#state;
  }

  /** Whether no step is running, and the last plan was empty and waited for nothing. */
  get isSettled(): boolean {
    return this.#isSettled;
  }

  /** Resolves when no step is running and the plan is empty and waits for nothing. A later change makes a new promise. */
  get settled(): Promise<void> {
    return this.#settled.promise;
  }

  /** Whether a planned step is waiting for its back-off. */
  get isFailing(): boolean {
    return this.#isFailing;
  }

  /** Makes the first plan. Optional if a change is applied. */
  start(): void {
    this.#schedule();
  }

  /** Applies a change, and plans again if the state changed. */
  apply(change: Change): void {
    if (this.#isStopped) return;
    const { reduce, clock } = this.#options;
    const now = { monotonicMs: clock.monotonic(), wallMs: clock.now() };
    const before = this.#state;
    this.#state = reduce(before, change, now);
    if (this.#state !== before) this.#schedule();
  }

  /** Ends all back-offs and resets the failure counts. */
  retryNow(): void {
    this.#pauses = [];
    this.#schedule();
  }

  /**
   * Ends the back-offs of one kind of step, because their cause may be gone. The failure count stays, so another failure waits
   * longer than before.
   *
   * @returns whether a planned step was waiting for its back-off
   */
  tryNow(kind: PropertyKey): boolean {
    const nowMs = this.#options.clock.monotonic();
    const isPaused = (each: Pause): boolean => each.kind === kind && each.untilMs > nowMs;
    const hasWaited = this.#isFailing && !this.#isStopped && this.#pauses.some(isPaused);
    this.#pauses = this.#pauses.map((each) =>
      isPaused(each) ? { ...each, untilMs: nowMs, firmUntilMs: nowMs } : each,
    );
    this.#schedule();
    return hasWaited;
  }

  /** The running and planned steps, and what the reconciler is waiting for. */
  inspect(): Inspection {
    const { plan, clock } = this.#options;
    const nowMs = clock.monotonic();
    const running = [...this.#running].map(([lane, { step, abort }]) =>
      this.#inspected(lane, step, { status: abort.signal.aborted ? "ending" : "running" }),
    );
    const waiting = plan(this.#state, nowMs).steps.flatMap((step) => {
      const lane = this.#laneOf(step);
      if (this.#running.get(lane)?.step.kind === step.kind) return [];
      const pause = this.#pauses.find((each) => isPauseOf(each, lane, step));
      const inMs = (pause?.untilMs ?? nowMs) - nowMs;
      const isPaused = inMs > 0 && !this.#running.has(lane);
      return this.#inspected(
        lane,
        step,
        isPaused ? { status: "paused", inMs } : { status: "queued" },
      );
    });
    const wakeInMs = this.#wakeAtMs === undefined ? undefined : Math.max(0, this.#wakeAtMs - nowMs);
    return { steps: [...running, ...waiting], wakeInMs };
  }

  #inspected(
    lane: string,
    step: StepOf<Args>,
    now: Pick<InspectedStep, "status" | "inMs">,
  ): InspectedStep {
    const pause = this.#pauses.find((each) => isPauseOf(each, lane, step));
    return { kind: step.kind, lane, failures: pause?.failures ?? 0, ...now };
  }

  /** Aborts all running steps and waits until they have ended. The state does not change. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#timer?.abort(stopped);
    const running = [...this.#running.values()];
    for (const { abort } of running) abort.abort(stopped);
    await Promise.all(running.map(({ done }) => done));
  }

  /** Makes one plan for all changes of this turn of the event loop. */
  #schedule(): void {
    if (this.#isScheduled || this.#isStopped) return;
    this.#isScheduled = true;
    if (this.#isSettled) {
      this.#isSettled = false;
      this.#settled = Promise.withResolvers();
    }
    inLaterTurn(() => {
      this.#isScheduled = false;
      if (this.#isStopped) return;
      try {
        this.#pass();
      } catch (err) {
        // A defect in `plan` must not escape from this reconciler. The next change tries again.
        this.#options.logger.error("Could not plan", { err });
      }
    });
  }

  #pass(): void {
    const nowMs = this.#options.clock.monotonic();
    const plan = this.#options.plan(this.#state, nowMs);
    const planned = new Map(plan.steps.map((step) => [this.#laneOf(step), step]));
    for (const [lane, running] of this.#running) follow(running, planned.get(lane));
    const retries: number[] = [];
    for (const [lane, step] of planned) {
      if (this.#running.has(lane)) continue;
      const untilMs = this.#pauseOf(lane, step)?.untilMs ?? nowMs;
      if (untilMs > nowMs) retries.push(untilMs);
      else this.#start(lane, step);
    }
    this.#isFailing = retries.length > 0;
    this.#wakeAt(Math.min(plan.wakeAtMs ?? Infinity, ...retries), nowMs);
    if (this.#reported !== this.#state) {
      this.#reported = this.#state;
      this.#options.onChange?.(this.#state);
    }
    const isIdle = planned.size === 0 && this.#running.size === 0 && !this.#isScheduled;
    if (!isIdle || plan.isWaiting === true) return;
    this.#isSettled = true;
    this.#settled.resolve();
  }

  #start(lane: string, step: StepOf<Args>): void {
    const abort = new AbortController();
    const running: Running<StepOf<Args>> = {
      abort,
      input: this.#options.input?.(step),
      step,
      listener: undefined,
      // Starts in a later microtask, after `running` was added to the map.
      done: Promise.resolve().then(() => this.#run(lane, running)),
    };
    this.#running.set(lane, running);
  }

  async #run(lane: string, running: Running<StepOf<Args>>): Promise<void> {
    const before = this.#state;
    const outcome = await this.#execute(running.step, running)
      .then((change) => change !== undefined && this.apply(change))
      .then(
        () => ({ isDone: true as const }),
        (error: unknown) => ({ isDone: false as const, error }),
      );
    this.#running.delete(lane);
    if (this.#isStopped) return;
    try {
      if (!outcome.isDone) this.#failed(lane, running, outcome.error);
      else if (this.#state !== before) this.#succeeded(lane, running);
      else if (this.#isPlanned(lane, running.step))
        this.#failed(lane, running, new NoEffectError("The step had no effect"));
    } catch (err) {
      // A defect in `plan` or `onFailure` must not escape from this reconciler either.
      this.#options.logger.error("Could not handle the end of a step", { err });
    }
    this.#schedule();
  }

  #execute<K extends keyof Args>(
    step: StepOf<Args, K>,
    running: Running<StepOf<Args>>,
  ): Promise<Change | undefined> {
    const context: StepContext<State, Change, StepOf<Args, K>> = {
      signal: running.abort.signal,
      state: () => this.#state,
      change: (change) => this.apply(change),
      onReplanned: (listener) => {
        running.listener = (next) => {
          if (next.kind === step.kind) listener(next as StepOf<Args, K>); // `next` is of the same kind
        };
      },
    };
    return this.#options.executors[step.kind](step, context);
  }

  #succeeded(lane: string, { step }: Running<StepOf<Args>>): void {
    if (this.#options.isProgress?.(step) === false) return;
    this.#pauses = this.#pauses.filter((pause) => pause.lane !== lane);
  }

  #failed(lane: string, { step, input, abort }: Running<StepOf<Args>>, error: unknown): void {
    if (abort.signal.aborted) return;
    const { clock, backoff: given, onFailure } = this.#options;
    const backoff = typeof given === "function" ? given(step) : given;
    const nowMs = clock.monotonic();
    const before = this.#pauses.find((pause) => isPauseOf(pause, lane, step));
    const newest = this.#options.input?.(step);
    const failures = (before && Object.is(input, newest) ? before.failures : 0) + 1;
    const delayMs = backoffDelay(failures - 1, backoff, error);
    const isAskedFor = isCodedError(error) && error.retryAfterMs !== undefined;
    const firmMs = before?.isShortened === true ? Math.min(delayMs, backoff.initialMs) : 0;
    this.#setPause({
      lane,
      kind: step.kind,
      failures,
      untilMs: nowMs + delayMs,
      input: newest,
      firmUntilMs: nowMs + (isAskedFor ? delayMs : firmMs),
      isShortened: false,
    });
    const change = onFailure?.({ step, error, failures, delayMs });
    if (change !== undefined) this.apply(change);
  }

  #isPlanned(lane: string, { kind }: StepOf<Args>): boolean {
    const { plan, clock } = this.#options;
    const { steps } = plan(this.#state, clock.monotonic());
    return steps.some((each) => this.#laneOf(each) === lane && each.kind === kind);
  }

  /** The back-off of a planned step. It is shorter if the step's input has changed. */
  #pauseOf(lane: string, step: StepOf<Args>): Pause | undefined {
    const pause = this.#pauses.find((each) => isPauseOf(each, lane, step));
    const input = this.#options.input?.(step);
    if (!pause || Object.is(pause.input, input)) return pause;
    const untilMs = Math.min(pause.untilMs, pause.firmUntilMs);
    const shortened = { ...pause, input, failures: 0, untilMs, isShortened: true };
    this.#setPause(shortened);
    return shortened;
  }

  #setPause(pause: Pause): void {
    const { lane } = pause;
    this.#pauses = [...this.#pauses.filter((each) => !isPauseOf(each, lane, pause)), pause];
  }

  #wakeAt(atMs: number, nowMs: number): void {
    this.#timer?.abort(overtaken);
    this.#wakeAtMs = Number.isFinite(atMs) ? atMs : undefined;
    if (!Number.isFinite(atMs)) return;
    this.#timer = new AbortController();
    const delayMs = Math.min(Math.max(0, atMs - nowMs), longestSleepMs);
    this.#options.clock.sleep(delayMs, this.#timer.signal).then(
      () => this.#schedule(),
      () => {}, // a newer plan has its own timer
    );
  }

  #laneOf(step: StepOf<Args>): string {
    return this.#options.lane?.(step) ?? "";
  }
}

function isPauseOf(pause: Pause, lane: string, { kind }: { readonly kind: PropertyKey }): boolean {
  return pause.lane === lane && pause.kind === kind;
}

/** Aborts a running step that is no longer planned. Passes newer arguments to one that is. */
function follow<Step extends { readonly kind: PropertyKey }>(
  running: Running<Step>,
  planned: Step | undefined,
): void {
  if (planned?.kind !== running.step.kind) return running.abort.abort(overtaken);
  if (planned === running.step) return;
  running.step = planned;
  running.listener?.(planned);
}
