import type { Services, ServiceTable } from "../services.ts";

/** Does all steps at once, and gives what the last one returns. */
export function resultOf<Result>(steps: Generator<unknown, Result>): Result {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/** All transactions that make a table of Services and put it in force. */
export function rebuilt(services: Services, inForce?: ServiceTable): readonly string[] {
  const texts = [...services.fill(inForce)].filter((each) => typeof each === "string");
  const [hooks, removal] = services.putInForce();
  return [...texts.slice(0, -1), `${texts.at(-1)}${hooks}`, removal];
}
