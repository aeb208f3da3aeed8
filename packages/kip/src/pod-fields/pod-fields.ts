import { containerFields } from "./container-fields.ts";
import type { FieldDecisions } from "./field-decision.ts";
import { podSpecFields } from "./pod-spec-fields.ts";
import { volumeFields } from "./volume-fields.ts";

/**
 * The meaning on a cell of each field of a pod's `spec`, by type. A test compares it with the API's document, and fails for a
 * field without a decision, so that no field is silently ignored.
 */
export const podFields: Readonly<Record<string, FieldDecisions>> = {
  ...podSpecFields,
  ...containerFields,
  ...volumeFields,
};
