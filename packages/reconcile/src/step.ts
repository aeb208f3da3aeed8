/** Arguments of a step kind without arguments. */
export type NoArguments = object;

/**
 * A step of kind `K`: the discriminant and its arguments. `Args` maps each kind to its arguments. It types both the steps and
 * their executors, so a kind without an executor does not compile.
 */
export type StepOf<Args, K extends keyof Args = keyof Args> = {
  readonly [P in K]: { readonly kind: P } & Args[P];
}[K];

/** What a plan function returns. */
export interface Plan<Step> {
  /** Steps to run now, at most one per lane. A step that is already running continues. */
  readonly steps: readonly Step[];
  /** When the plan changes with time alone: milliseconds of the clock's `monotonic()`. */
  readonly wakeAtMs?: number | undefined;
  /**
   * Whether there is more to do once something changes. A reconciler without steps is then idle, but not settled. @default
   * false
   */
  readonly isWaiting?: boolean | undefined;
}

/** One point in time on both clocks. */
export interface Moment {
  /** Milliseconds of the clock's `monotonic()`, for time limits. */
  readonly monotonicMs: number;
  /** Milliseconds since the epoch, for times that others read. */
  readonly wallMs: number;
}

/** What an executor can use while its step runs. */
export interface StepContext<State, Change, Step> {
  /** Aborted as soon as the plan no longer contains the step, and when the reconciler stops. */
  readonly signal: AbortSignal;
  /** The newest state. Read it again after each `await`. */
  readonly state: () => State;
  /** Reports progress before the step ends. Has no effect once the reconciler has stopped. */
  readonly change: (change: Change) => void;
  /** Calls the listener when a newer plan keeps this step but changes its arguments. */
  readonly onReplanned: (listener: (step: Step) => void) => void;
}

/**
 * The function that runs each kind of step. It returns what changed, and throws if the step failed. It must be safe to repeat.
 */
export type Executors<Args, State, Change> = {
  readonly [K in keyof Args]: (
    step: StepOf<Args, K>,
    context: StepContext<State, Change, StepOf<Args, K>>,
  ) => Promise<Change | undefined>;
};
