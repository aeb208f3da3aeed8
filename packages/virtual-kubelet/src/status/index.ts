// What a provider needs that composes the statuses of its pods from parts.
export { mergeConditions, type ConditionVerdict } from "./conditions.ts";
export { goneStatuses, waitingStatuses } from "./container-statuses.ts";
export { qosClass } from "./qos-class.ts";
