export type { Executors, Moment, NoArguments, Plan, StepContext, StepOf } from "./step.ts";
export { Reconciler, type ReconcilerOptions, type StepFailure } from "./reconciler.ts";
