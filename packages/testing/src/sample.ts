/** Whether the slow tests are to run whole: `KIP_E2E_ALL=1`, as `npm run test:e2e:all` sets it. */
// eslint-disable-next-line node/no-process-env -- the way to choose the tests of a run
export const isWholeRun = process.env["KIP_E2E_ALL"] === "1";

/** `count` of the cases at random, in their order. All of them in a whole run. For cases that take long and are much alike. */
export function sample<T>(cases: readonly T[], count: number): readonly T[] {
  if (isWholeRun) return cases;
  const order = cases.map((each, index) => ({ each, index, at: Math.random() }));
  const chosen = order.toSorted((a, b) => a.at - b.at).slice(0, count);
  return chosen.toSorted((a, b) => a.index - b.index).map(({ each }) => each);
}
