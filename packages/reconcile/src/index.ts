export type { Executors, Moment, NoArguments, Plan, StepContext, StepOf } from "./step.ts";
export {
  NoEffectError,
  Reconciler,
  type ReconcilerOptions,
  type StepFailure,
} from "./reconciler.ts";
