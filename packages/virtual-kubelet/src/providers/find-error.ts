import { hasCode } from "@kip/base";

/** Finds an error with one of the codes in an error and its causes, up to a depth of five. */
export function findError(error: unknown, ...codes: readonly string[]): unknown {
  let current = error;
  for (let depth = 0; depth < 5 && current instanceof Error; depth++) {
    if (hasCode(current, ...codes)) return current;
    current = current.cause;
  }
  return undefined;
}
