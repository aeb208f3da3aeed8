import { setImmediate } from "node:timers/promises";

/** How much work is done before other work of the process has its turn; about 10 ms. */
export const blockWork = 5000;

/**
 * Runs a generator to its end, with a pause for other work of the process after each {@link blockWork}: kip and agents do everything in one
 * thread.
 *
 * @param steps yields how much work each step was, in endpoints that were looked at
 * @throws what a step throws
 */
export async function inBlocks<Result>(
  steps: Generator<number, Result, undefined>,
): Promise<Result> {
  for (let work = 0; ;) {
    const step = steps.next();
    if (step.done === true) return step.value;
    work += step.value;
    if (work < blockWork) continue;
    work = 0;
    await setImmediate();
  }
}
