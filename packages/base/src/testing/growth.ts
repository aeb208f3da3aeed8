/** Work whose processor time is measured for a given input size. */
type Work = (size: number) => unknown;

/** Results below this depend on the clock's resolution and on garbage collection. Processor milliseconds. */
const floorMs = 2;

/**
 * How many times more processor time work takes for an input ten times as large: about 10 if it is linear, 100 if it is
 * quadratic. Work too short to measure counts as 2 ms, so the result is rather too low than too high.
 *
 * Takes the least of three runs, in processor time of this thread, so other programs on the machine have little influence.
 * Tests compare the result with 40.
 */
export async function growth(work: Work, size: number): Promise<number> {
  await work(Math.ceil(size / 10)); // lets Node compile it
  const small = await leastMs(() => work(Math.ceil(size / 10)));
  const large = await leastMs(() => work(size));
  return Math.max(large, floorMs) / Math.max(small, floorMs);
}

async function leastMs(work: () => unknown): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let run = 0; run < 3; run += 1) {
    const start = process.threadCpuUsage();
    await work();
    const { user, system } = process.threadCpuUsage(start);
    least = Math.min(least, (user + system) / 1000);
  }
  return least;
}
