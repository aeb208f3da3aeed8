import assert from "node:assert/strict";

/**
 * Fails if ten times the input needs more than thirty times the CPU time. Quadratic work would need a hundred times as much.
 * Less than a millisecond counts as one.
 *
 * @param work called with a size; returns the function to measure
 * @param size size of the large input
 */
export async function assertScales(
  work: (size: number) => () => unknown,
  size: number,
): Promise<void> {
  const small = Math.max(await lowestCost(() => work(size / 10)), 1000);
  const large = await lowestCost(() => work(size));
  assert.ok(large < 30 * small, `${large} µs for ${size}, ${small} µs for ${size / 10}`);
}

/** The lowest of several runs, because compilation and garbage collection also take time. Microseconds. */
async function lowestCost(prepare: () => () => unknown): Promise<number> {
  let lowest = Number.POSITIVE_INFINITY;
  for (let run = 0; run < 4; run++) lowest = Math.min(lowest, await cost(prepare()));
  return lowest;
}

async function cost(work: () => unknown): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return user + system;
}
