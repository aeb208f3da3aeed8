/** A clock that a test advances. */
interface MovedClock {
  /** @param ms how far, milliseconds */
  advance(ms: number): Promise<void>;
}

/**
 * Advances the clock second by second until the work is done.
 *
 * @throws errors of the work; an error if it takes longer than ten minutes
 */
export async function settled<T>(work: Promise<T>, clock: MovedClock): Promise<T> {
  const result = work.then(
    (value) => ({ value }),
    (error: unknown) => ({ error }),
  );
  for (let second = 0; second < 600; second++) {
    const done = await Promise.race([result, clock.advance(1000)]);
    if (typeof done !== "object") continue;
    if ("error" in done) throw done.error;
    return done.value;
  }
  throw new Error("It takes longer than ten minutes");
}
