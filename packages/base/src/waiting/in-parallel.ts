/**
 * Calls `work` for each of `items`, in their order and at most `limit` at the same time. Items are taken as calls end, so an
 * iterator may be lazy, or stop early. Once a call has failed, none is begun.
 *
 * @param limit from 1
 * @throws the first failure, once no call is under way
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
