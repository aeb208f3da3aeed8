export type { Executors, Moment, NoArguments, Plan, StepContext, StepOf } from "./step.ts";
export {
  NoEffectError,
  Reconciler,
  type InspectedStep,
  type Inspection,
  type ReconcilerOptions,
  type StepFailure,
} from "./reconciler.ts";
