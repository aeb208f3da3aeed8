import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { temporaryFolder } from "@kip/testing";
import { counted, filesToRunAgain, linesOf, withSecondRun, type Outcome } from "./outcomes.ts";

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

  it("count suites that were skipped, with their reason, and suites that failed by themselves", async () => {
    using folder = temporaryFolder();
    const file = path.join(folder.path, "some.test.mjs");
    writeFileSync(
      file,
      `import { after, describe, it } from "node:test";
       describe("skipped suite", { skip: "needs a moon" }, () => { it("unheard", () => {}); });
       describe("end", () => { after(() => { throw new Error("left something"); }); it("1", () => {}); });
       describe("body", () => { throw new Error("no table"); });
       describe("child", () => { it("2", () => { throw new Error("wrong"); }); });
       describe("good", () => { it("3", () => {}); it("4", { skip: "slow" }, () => {}); });`,
    );
    const reporter = path.join(import.meta.dirname, "../e2e/programs/test-lines.ts");
    const { NODE_TEST_CONTEXT: _, ...env } = process.env;
    const { stdout } = spawnSync(process.execPath, [`--test-reporter=${reporter}`, file], { env });
    const outcomes = stdout
      .toString()
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line.replace("outcome: ", "")) as Outcome); // printed by our own reporter
    assert.deepEqual(
      linesOf(outcomes, outcomes, folder.path).map((line) => line.replace("some.test.mjs: ", "")),
      [
        "skipped: all of skipped suite: needs a moon",
        "skipped: 4: slow",
        "failed: end: left something",
        "failed: body: no table",
        "failed: 2: wrong",
      ],
    );
    assert.deepEqual(
      counted(outcomes, "passed").map(({ name }) => name),
      ["1", "3"],
    );
  });

  it("belong to the file that was run, also where a shared suite has the test", () => {
    using folder = temporaryFolder();
    const file = path.join(folder.path, "some.test.mjs");
    const shared = 'import { it } from "node:test"; export const suite = () => it("1", () => {});';
    writeFileSync(path.join(folder.path, "shared.mjs"), shared);
    writeFileSync(file, 'import { suite } from "./shared.mjs"; suite();');
    const script = `
      import { run } from "node:test";
      import { outcomeOf } from ${JSON.stringify(path.join(import.meta.dirname, "outcomes.ts"))};
      run({ files: [${JSON.stringify(file)}] })
        .on("test:pass", (data) => console.log(outcomeOf({ type: "test:pass", data }).file))
        .resume();`;
    const { NODE_TEST_CONTEXT: _, ...env } = process.env;
    const args = ["--input-type=module", `--eval=${script}`];
    const { stdout } = spawnSync(process.execPath, args, { env, encoding: "utf8" });
    assert.equal(stdout, `${file}\n`);
  });
});
