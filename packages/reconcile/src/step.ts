/** The arguments of a step that takes none. */
export type NoArguments = object;

/**
 * A step of kind `K`: the discriminant and its arguments. `Args` maps each kind to its arguments, and types the steps and
 * their executors alike, so a kind without an executor does not compile.
 */
export type StepOf<Args, K extends keyof Args = keyof Args> = {
  readonly [P in K]: { readonly kind: P } & Args[P];
}[K];

/** What a plan function returns. */
export interface Plan<Step> {
  /** Steps to take now, at most one per lane. A step that is already running goes on. */
  readonly steps: readonly Step[];
  /** When time alone changes the plan, milliseconds of the clock's `monotonic()`. */
  readonly wakeAtMs?: number | undefined;
  /** Whether more is to be done once something changes: without steps the reconciler is then idle, but not settled. @default false */
  readonly isWaiting?: boolean | undefined;
}

/** One moment on both clocks. */
export interface Moment {
  /** Milliseconds of the clock's `monotonic()`, for time limits. */
  readonly monotonicMs: number;
  /** Milliseconds since the epoch, for times that others read. */
  readonly wallMs: number;
}

/** What an executor may use while its step runs. */
export interface StepContext<State, Change, Step> {
  /** Aborted as soon as the plan no longer contains the step, and when the reconciler stops. */
  readonly signal: AbortSignal;
  /** The newest state. Read it again after each `await`. */
  readonly state: () => State;
  /** Reports progress before the step ends. Has no effect once the reconciler has stopped. */
  readonly change: (change: Change) => void;
  /** Calls back when the plan keeps this step but changes its arguments. */
  readonly onReplanned: (listener: (step: Step) => void) => void;
}

/** Carries out each kind of step. Returns what changed; throws what made it fail. Safe to repeat. */
export type Executors<Args, State, Change> = {
  readonly [K in keyof Args]: (
    step: StepOf<Args, K>,
    context: StepContext<State, Change, StepOf<Args, K>>,
  ) => Promise<Change | undefined>;
};
