// What a provider needs that finishes a container's environment itself, on the pod's machine.
export {
  expandExcept,
  expandSubPath,
  expandVariables,
  ExpansionBudget,
} from "./expand-variables.ts";
export { bindLateEnv, type BoundVariable, type LateAddresses } from "./late-env.ts";
