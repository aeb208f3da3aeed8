// The results of a stage's tests, and which files to run again.
import path from "node:path";
import type { TestEvent } from "node:test/reporters";
import { errorText } from "@kip/base";

export interface Outcome {
  readonly file: string;
  readonly name: string;
  readonly result: "passed" | "failed" | "skipped";
  /**
   * Suites count for the acceptance list. They only count as results if they failed themselves, or were skipped, because then
   * their tests are not reported.
   */
  readonly type: "test" | "suite";
  /** Why it failed or was skipped. */
  readonly why?: string;
  /** Whether a suite failed only because of its tests. */
  readonly isForItsTests?: true;
}

/** The file that was run. `file` is the one that contains the test, which may be a suite that several files share. */
function testFileOf(data: { readonly file?: string; readonly entryFile?: string }): string {
  return data.entryFile ?? data.file ?? "";
}

/** The outcome in an event of node:test for a test or suite that has ended. Undefined for other events. */
export function outcomeOf(event: TestEvent): Outcome | undefined {
  if (event.type !== "test:pass" && event.type !== "test:fail") return undefined;
  const { name, skip, todo, details } = event.data;
  const file = testFileOf(event.data);
  const base = { name, file, type: details.type === "suite" ? "suite" : "test" } as const;
  if (event.type === "test:fail") {
    const { error } = event.data.details;
    const isForItsTests = "failureType" in error && error.failureType === "subtestsFailed";
    const why = errorText(error.cause ?? error);
    return { ...base, result: "failed", why, ...(isForItsTests && { isForItsTests }) };
  }
  const why = skip ?? todo;
  return why === undefined
    ? { ...base, result: "passed" }
    : { ...base, result: "skipped", why: String(why) };
}

/** The outcomes with this result that the closing lines list and count. */
export function counted(
  outcomes: readonly Outcome[],
  wanted: Outcome["result"],
): readonly Outcome[] {
  return outcomes.filter(
    ({ type, result, isForItsTests }) =>
      result === wanted && (type === "test" || (result !== "passed" && isForItsTests !== true)),
  );
}

/** If more files failed, that is not an accident. */
const mostFilesAgain = 3;

/**
 * Files with a failed test, to run again one by one, because tests with real machines share two cores with other programs.
 * Empty if more than three files failed.
 */
export function filesToRunAgain(outcomes: readonly Outcome[]): readonly string[] {
  const failed = outcomes.filter(({ result }) => result === "failed");
  const files = [...new Set(failed.map(({ file }) => file))];
  return files.length > mostFilesAgain ? [] : files;
}

/** Replaces the outcomes of files that were run again by those of the second run. */
export function withSecondRun(
  first: readonly Outcome[],
  second: readonly Outcome[],
): readonly Outcome[] {
  const files = new Set(second.map(({ file }) => file));
  return [...first.filter(({ file }) => !files.has(file)), ...second];
}

/** A line for each test or whole suite that was skipped or failed, and for each that failed in the first run. */
export function linesOf(
  first: readonly Outcome[],
  last: readonly Outcome[],
  root: string,
): readonly string[] {
  const where = ({ file, name, why }: Outcome): string =>
    `${path.relative(root, file)}: ${name}: ${why}`;
  const failed = counted(last, "failed");
  const isStillFailed = (file: string): boolean => failed.some((other) => other.file === file);
  const unsteady = counted(first, "failed").filter(({ file }) => !isStillFailed(file));
  return [
    ...counted(last, "skipped").map(
      ({ type, name, why }) => `skipped: ${type === "suite" ? "all of " : ""}${name}: ${why}`,
    ),
    ...unsteady.map((outcome) => `passed only when run again: ${where(outcome)}`),
    ...failed.map((outcome) => `failed: ${where(outcome)}`),
  ];
}
