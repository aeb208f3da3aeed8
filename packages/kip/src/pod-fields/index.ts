export { tooMany, unsupported, type FieldDecision, type FieldDecisions } from "./field-decision.ts";
export { podFields } from "./pod-fields.ts";
