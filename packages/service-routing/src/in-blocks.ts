import { setImmediate } from "node:timers/promises";

/** So much work is done before other work of the process is let pass: about 10 ms. */
export const blockWork = 5000;

/**
 * Does work step by step, and lets other work of the process pass after each {@link blockWork}: kip answers its cells, and an
 * agent its kip, with the same thread.
 *
 * @param steps gives how much each step has done, in endpoints that were looked at
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
