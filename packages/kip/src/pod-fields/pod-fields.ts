import { containerFields } from "./container-fields.ts";
import type { FieldDecisions } from "./field-decision.ts";
import { podSpecFields } from "./pod-spec-fields.ts";
import { volumeFields } from "./volume-fields.ts";

/**
 * What each field of a pod's `spec` means on a cell, by the type that has it. A test compares it with the API's document:
 * a field without a decision fails, so that none is ignored without a word.
 */
export const podFields: Readonly<Record<string, FieldDecisions>> = {
  ...podSpecFields,
  ...containerFields,
  ...volumeFields,
};
