// What the tests of a stage came to, and which files are worth a second run.
import path from "node:path";

export interface Outcome {
  readonly file: string;
  readonly name: string;
  readonly result: "passed" | "failed" | "skipped";
  /** A suite counts for the acceptance list alone. */
  readonly type: "test" | "suite";
  /** Why it failed or was skipped. */
  readonly why?: string;
}

/** More failed files than this are not an accident. */
const mostFilesAgain = 3;

/**
 * Files with a failed test, to be run once more by themselves: tests with real machines share two cores with whatever else runs
 * there. None if more than three failed.
 */
export function filesToRunAgain(outcomes: readonly Outcome[]): readonly string[] {
  const failed = outcomes.filter(({ result }) => result === "failed");
  const files = [...new Set(failed.map(({ file }) => file))];
  return files.length > mostFilesAgain ? [] : files;
}

/** The outcomes with those of the second run in place of the first ones of the same files. */
export function withSecondRun(
  first: readonly Outcome[],
  second: readonly Outcome[],
): readonly Outcome[] {
  const files = new Set(second.map(({ file }) => file));
  return [...first.filter(({ file }) => !files.has(file)), ...second];
}

/** A line for each test that was skipped or failed, and for each that failed at first. */
export function linesOf(
  first: readonly Outcome[],
  last: readonly Outcome[],
  root: string,
): readonly string[] {
  const of = (outcomes: readonly Outcome[], wanted: Outcome["result"]): readonly Outcome[] =>
    outcomes.filter(({ type, result }) => type === "test" && result === wanted);
  const where = ({ file, name, why }: Outcome): string =>
    `${path.relative(root, file)}: ${name}: ${why}`;
  const failed = of(last, "failed");
  const isStillFailed = (file: string): boolean => failed.some((other) => other.file === file);
  const unsteady = of(first, "failed").filter(({ file }) => !isStillFailed(file));
  return [
    ...of(last, "skipped").map(({ name, why }) => `skipped: ${name}: ${why}`),
    ...unsteady.map((outcome) => `passed only when run again: ${where(outcome)}`),
    ...failed.map((outcome) => `failed: ${where(outcome)}`),
  ];
}
