import {
  backoffDelay,
  isCodedError,
  type BackoffOptions,
  type Clock,
  type Logger,
} from "@kip/base";
import type { Executors, Moment, Plan, StepContext, StepOf } from "./step.ts";

/** A step that failed, as {@link ReconcilerOptions.onFailure} sees it. */
export interface StepFailure<Step> {
  readonly step: Step;
  readonly error: unknown;
  /** Failures of this kind with this input since the lane's last success, this one included. */
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
  /** Steps of one lane run one at a time, those of different lanes side by side. @default one lane for all */
  readonly lane?: ((step: StepOf<Args>) => string) | undefined;
  /**
   * What the outcome of a step depends on, compared with `Object.is`. When it changes, the failures so far no longer count: the
   * back-off ends at once, unless the server asked for it (`retryAfterMs`) or the back-off before it ended in the same way;
   * then not before `backoff.initialMs`. @default nothing that changes
   */
  readonly input?: ((step: StepOf<Args>) => unknown) | undefined;
  /** Of all steps, or of this one. */
  readonly backoff: BackoffOptions | ((step: StepOf<Args>) => BackoffOptions);
  /** Whether a success of this step ends the back-off of its lane. @default all do */
  readonly isProgress?: ((step: StepOf<Args>) => boolean) | undefined;
  /** Called once for all changes of one turn of the event loop. */
  readonly onChange?: ((state: State) => void) | undefined;
  /**
   * Called when a step failed that was not aborted; may return a change that says so. The step's own changes may have taken
   * it from the plan: its back-off applies all the same when it is planned again.
   */
  readonly onFailure?: ((failure: StepFailure<StepOf<Args>>) => Change | undefined) | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** A step of a {@link Reconciler}, as of now. */
export interface InspectedStep {
  readonly kind: PropertyKey;
  readonly lane: string;
  /**
   * "ending": it was aborted, and still keeps its lane; "paused": it failed, and runs again later; "queued": it is planned, and
   * another one keeps its lane, or it starts at once.
   */
  readonly status: "running" | "ending" | "paused" | "queued";
  /** Failures since the last success of its lane; 0 or more. */
  readonly failures: number;
  /** Milliseconds until it runs again; of one that is paused. */
  readonly inMs?: number | undefined;
}

/** What a {@link Reconciler} does now, for people. */
export interface Inspection {
  readonly steps: readonly InspectedStep[];
  /** Milliseconds until it plans again although nothing has changed; undefined: never. */
  readonly wakeInMs: number | undefined;
}

/** A step succeeded without changing anything, although the plan still contains it: most likely a defect. */
export class NoEffectError extends Error {
  override readonly name = "NoEffectError";
}

interface Running<Step> {
  readonly abort: AbortController;
  readonly done: Promise<void>;
  /** Input with which the step was started. */
  readonly input: unknown;
  /** The step as the newest plan has it. */
  step: Step;
  listener: ((step: Step) => void) | undefined;
}

/** The back-off of one kind of step. It is kept until the lane makes progress, as it counts the failures. */
interface Pause {
  readonly lane: string;
  readonly kind: PropertyKey;
  readonly failures: number;
  readonly untilMs: number;
  /** The input that failed, and until when the pause goes on although the input has changed. */
  readonly input: unknown;
  readonly firmUntilMs: number;
  /** Whether a change of the input has ended it. */
  readonly isShortened: boolean;
}

/** Reasons of aborts, made once: an error with a stack trace for each plan would cost more than the plan. */
const overtaken = new DOMException("The plan no longer contains this step", "AbortError");
const stopped = new DOMException("The reconciler has stopped", "AbortError");

/** The longest single timer, milliseconds; the plan is then made again. */
const longestSleepMs = 86_400_000;

/**
 * Brings something from what it is to what it should be: plans from the state, executes the plan's steps, reduces what they
 * report to a new state, and plans again, until the plan is empty.
 *
 * Invariants:
 * - Only `reduce` makes a new state, and only between two turns of steps: a state is never half changed.
 * - A lane runs one step at a time. A step that was aborted keeps its lane until it has ended.
 * - A step is aborted as soon as the plan no longer contains its kind in its lane.
 * - A step that failed, or succeeded without changing anything although the plan still contains it, runs again only after a
 *   back-off, whatever other steps do meanwhile. Changes of the state do not shorten it, except for those that
 *   {@link ReconcilerOptions.input} names; {@link Reconciler.retryNow} and {@link Reconciler.tryNow} do.
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

  /** Whether nothing runs and the plan, when it was last made, was empty and waited for nothing. */
  get isSettled(): boolean {
    return this.#isSettled;
  }

  /** Resolves when nothing runs and the plan is empty and waits for nothing; a change after that makes a new promise. */
  get settled(): Promise<void> {
    return this.#settled.promise;
  }

  /** Whether a failed step that is still planned waits for its back-off. */
  get isFailing(): boolean {
    return this.#isFailing;
  }

  /** Plans for the first time. Not needed before a change is applied. */
  start(): void {
    this.#schedule();
  }

  /** Applies a change and plans again, unless it changes nothing. */
  apply(change: Change): void {
    if (this.#isStopped) return;
    const { reduce, clock } = this.#options;
    const now = { monotonicMs: clock.monotonic(), wallMs: clock.now() };
    const before = this.#state;
    this.#state = reduce(before, change, now);
    if (this.#state !== before) this.#schedule();
  }

  /** Ends all back-offs, and forgets the failures: someone who waits wants it now. */
  retryNow(): void {
    this.#pauses = [];
    this.#schedule();
  }

  /**
   * Ends the back-offs of one kind of step, whose cause may be gone. Its failures still count: if it fails again, it waits for longer than
   * before.
   *
   * @returns whether a step that is still planned waited
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

  /** What it does and plans now, and what it waits for. */
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

  /** Aborts what runs and waits until it has ended. The state stays as it is. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#timer?.abort(stopped);
    const running = [...this.#running.values()];
    for (const { abort } of running) abort.abort(stopped);
    await Promise.all(running.map(({ done }) => done));
  }

  /** One plan for all that changed in this turn of the event loop. */
  #schedule(): void {
    if (this.#isScheduled || this.#isStopped) return;
    this.#isScheduled = true;
    if (this.#isSettled) {
      this.#isSettled = false;
      this.#settled = Promise.withResolvers();
    }
    setImmediate(() => {
      this.#isScheduled = false;
      if (this.#isStopped) return;
      try {
        this.#pass();
      } catch (err) {
        // A defect in a plan stays in this reconciler; the next change tries again.
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
      // Starts in a later microtask, when `running` is in the map.
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
      // A defect in `plan` or `onFailure` stays in this reconciler, too.
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
          if (next.kind === step.kind) listener(next as StepOf<Args, K>); // of the same kind
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

  /** The back-off of a planned step, shorter if its input has changed. */
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

/** Aborts a step that is no longer planned; passes newer arguments on to one that is. */
function follow<Step extends { readonly kind: PropertyKey }>(
  running: Running<Step>,
  planned: Step | undefined,
): void {
  if (planned?.kind !== running.step.kind) return running.abort.abort(overtaken);
  if (planned === running.step) return;
  running.step = planned;
  running.listener?.(planned);
}
