import { hasCode } from "@kip/base";

/** The error of one of these codes among an error and its causes: providers wrap what they get. */
export function findError(error: unknown, ...codes: readonly string[]): unknown {
  let current = error;
  for (let depth = 0; depth < 5 && current instanceof Error; depth++) {
    if (hasCode(current, ...codes)) return current;
    current = current.cause;
  }
  return undefined;
}
