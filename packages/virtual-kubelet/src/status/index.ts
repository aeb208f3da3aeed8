// For providers that compose the statuses of their pods from parts.
export { mergeConditions, type ConditionVerdict } from "./conditions.ts";
export { endedStatuses, goneStatuses, waitingStatuses } from "./container-statuses.ts";
export { deadlineExceeded } from "./deadline-exceeded.ts";
export { hasRun } from "../pods/pod-facts.ts";
export { qosClass } from "./qos-class.ts";
