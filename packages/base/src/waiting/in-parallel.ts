/**
 * Calls `work` for each of `items` in order, at most `limit` at the same time. The next item is taken when a call ends, so an
 * iterator may be lazy or stop early. After a failure, no further call starts.
 *
 * @param limit from 1
 * @throws the first failure, once all started calls have ended
 */
export async function inParallel<T>(
  items: Iterable<T>,
  limit: number,
  work: (item: T) => Promise<unknown>,
): Promise<void> {
  const failures: unknown[] = [];
  const left = items[Symbol.iterator]();
  const workInTurn = async (): Promise<void> => {
    try {
      for (let next = left.next(); !next.done && failures.length === 0; next = left.next()) {
        await work(next.value);
      }
    } catch (error) {
      failures.push(error);
    }
  };
  await Promise.all(Array.from({ length: limit }, workInTurn));
  if (failures.length > 0) throw failures[0];
}
