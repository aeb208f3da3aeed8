import assert from "node:assert/strict";
import path from "node:path";
import { describe, it } from "node:test";
import { temporaryFolder } from "@kip/testing";
import {
  addResult,
  firstLine,
  parseResults,
  readResults,
  resultOf,
  type Result,
} from "./results.ts";

const result: Result = { name: "a", outcome: "failed", seconds: 3, reason: "no" };

describe("readResults()", () => {
  it("gives the last result of each spec, and none without a file", async () => {
    using work = temporaryFolder();
    const file = path.join(work.path, "results.jsonl");
    assert.equal((await readResults(file)).size, 0);
    await addResult(file, result);
    await addResult(file, { ...result, name: "b" });
    await addResult(file, { ...result, outcome: "passed" });
    const found = await readResults(file);
    assert.deepEqual([...found.keys()], ["a", "b"]);
    assert.equal(found.get("a")?.outcome, "passed");
  });
});

describe("parseResults()", () => {
  it("leaves out a line that the end of a run has cut", () => {
    assert.equal(parseResults(`${JSON.stringify(result)}\n{"name":"b","outc`).size, 1);
  });
});

describe("resultOf()", () => {
  const report = { name: "a", state: "passed", seconds: 2.4, message: "" };

  it("is passed only if nothing of the run has failed", () => {
    assert.equal(resultOf("a", [report]).outcome, "passed");
    const after = { name: "SynchronizedAfterSuite", state: "failed", seconds: 0, message: "left" };
    assert.deepEqual(resultOf("a", [report, after]), {
      name: "a",
      outcome: "failed",
      seconds: 2,
      reason: "left",
    });
  });

  it("tells a spec that skipped itself, and one that was over its limit, from one that failed", () => {
    const outcomes = ["skipped", "timedout", "failed", "panicked", "interrupted"].map(
      (state) => resultOf("a", [{ ...report, state, message: "why" }]).outcome,
    );
    assert.deepEqual(outcomes, ["skipped", "timed out", "failed", "failed", "failed"]);
  });

  it("is failed if the run has not come to the spec", () => {
    assert.equal(resultOf("a", []).outcome, "failed");
    const before = {
      name: "SynchronizedBeforeSuite",
      state: "failed",
      seconds: 0,
      message: "down",
    };
    assert.equal(resultOf("a", [before]).reason, "down");
  });
});

describe("firstLine()", () => {
  it("gives the first line that has words, and 200 characters of it at most", () => {
    assert.equal(firstLine("\n  {\n  no answer  \nmore"), "no answer");
    assert.equal(firstLine("x".repeat(300)).length, 200);
  });
});
