/** A clock that a test moves. */
interface MovedClock {
  /** @param ms milliseconds that pass */
  advance(ms: number): Promise<void>;
}

/**
 * Lets time pass, a second after the other, until something is done.
 *
 * @throws what the work throws; an error if it takes longer than ten minutes
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
