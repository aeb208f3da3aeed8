import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { filesToRunAgain, linesOf, withSecondRun, type Outcome } from "./outcomes.ts";

const passed = (file: string, name: string): Outcome => ({
  file,
  name,
  type: "test",
  result: "passed",
});
const failed = (file: string, name: string): Outcome => ({
  file,
  name,
  type: "test",
  result: "failed",
  why: "no answer",
});

describe("outcomes of tests", () => {
  it("are asked for again in files with a failed test, unless there are many", () => {
    const few = [
      passed("/r/a", "1"),
      failed("/r/b", "2"),
      failed("/r/b", "3"),
      failed("/r/c", "4"),
    ];
    assert.deepEqual(filesToRunAgain(few), ["/r/b", "/r/c"]);
    const many = ["a", "b", "c", "d"].map((file) => failed(`/r/${file}`, "1"));
    assert.deepEqual(filesToRunAgain(many), []);
  });

  it("are those of the second run, which says what failed at first", () => {
    const first = [
      passed("/r/a", "1"),
      passed("/r/b", "2"),
      failed("/r/b", "3"),
      failed("/r/c", "4"),
    ];
    const again = [passed("/r/b", "2"), passed("/r/b", "3"), failed("/r/c", "4")];
    const last = withSecondRun(first, again);
    assert.deepEqual(last, [passed("/r/a", "1"), ...again]);
    assert.deepEqual(linesOf(first, last, "/r"), [
      "passed only when run again: b: 3: no answer",
      "failed: c: 4: no answer",
    ]);
  });

  it("stay as they are without a second run", () => {
    const first = [failed("/r/a", "1"), { ...passed("/r/b", "2"), result: "skipped", why: "slow" }];
    const outcomes = first as readonly Outcome[];
    assert.deepEqual(withSecondRun(outcomes, []), outcomes);
    assert.deepEqual(linesOf(outcomes, outcomes, "/r"), [
      "skipped: 2: slow",
      "failed: a: 1: no answer",
    ]);
  });
});
