// What the tests of a stage came to, and which files are worth a second run.
import path from "node:path";
import type { TestEvent } from "node:test/reporters";
import { errorText } from "@kip/base";

export interface Outcome {
  readonly file: string;
  readonly name: string;
  readonly result: "passed" | "failed" | "skipped";
  /**
   * A suite counts for the acceptance list; among the results only if it was skipped, as its tests are not heard of then, or
   * failed by itself.
   */
  readonly type: "test" | "suite";
  /** Why it failed or was skipped. */
  readonly why?: string;
  /** A suite that failed for its tests alone. */
  readonly isForItsTests?: true;
}

/** The file that was run: `file` is the one that has the test's lines, which may be a suite that several files share. */
function testFileOf(data: { readonly file?: string; readonly entryFile?: string }): string {
  return data.entryFile ?? data.file ?? "";
}

/** What an event of node:test says of a test or suite that has ended; undefined for other events. */
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

/** Those with this result that the closing lines name and count. */
export function counted(
  outcomes: readonly Outcome[],
  wanted: Outcome["result"],
): readonly Outcome[] {
  return outcomes.filter(
    ({ type, result, isForItsTests }) =>
      result === wanted && (type === "test" || (result !== "passed" && isForItsTests !== true)),
  );
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

/** A line for each test or whole suite that was skipped or failed, and for each that failed at first. */
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
