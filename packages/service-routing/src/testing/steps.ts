/** Does all steps at once, and gives what the last one returns. */
export function resultOf<Result>(steps: Generator<unknown, Result>): Result {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/** The texts among what steps give. */
export function textsOf(steps: Iterable<string | number>): readonly string[] {
  return [...steps].filter((each) => typeof each === "string");
}
