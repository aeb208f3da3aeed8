import { setImmediate } from "node:timers/promises";

/** The work in a block, see {@link inBlocks}. It takes about 10 ms. */
export const blockWork = 5000;

/**
 * Runs a generator to its end, and lets the process do other work after each {@link blockWork}. Kip and agents are single-threaded.
 *
 * @param steps yields the work of each step, as a number of endpoints read
 * @throws errors of the steps
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
