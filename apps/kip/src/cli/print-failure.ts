import { errorText, isCodedError } from "@kip/base";

/** Tells a person what failed and what to do, in two lines. */
export function printFailure(error: unknown): void {
  console.error(`kip: ${errorText(error)}`);
  const remedy = findRemedy(error);
  if (remedy !== undefined) console.error(`     ${remedy}`);
  if (!isCodedError(error) && error instanceof Error) console.error(error.stack);
}

function findRemedy(error: unknown): string | undefined {
  for (let current = error; current instanceof Error; current = current.cause) {
    if (isCodedError(current) && current.remedy !== undefined) return current.remedy;
  }
  return undefined;
}
