export type { FieldDecision, FieldDecisions } from "./field-decision.ts";
export { podFields } from "./pod-fields.ts";
