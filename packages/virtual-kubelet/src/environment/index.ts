// For providers that complete a container's environment themselves, on the pod's machine.
export {
  expandExcept,
  expandSubPath,
  expandVariables,
  ExpansionBudget,
  refersTo,
} from "./expand-variables.ts";
export { bindLateEnv, type BoundVariable, type LateAddresses } from "./late-env.ts";
