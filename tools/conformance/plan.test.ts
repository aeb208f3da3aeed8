import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { notAskable } from "./not-askable.ts";
import { planRun, type Choice } from "./plan.ts";
import type { Result } from "./results.ts";
import type { Spec } from "./specs.ts";

const specs: readonly Spec[] = [
  ["one", "node", false],
  ["two", "network", true],
  ["three", "network", false],
  [`[sig-x] ${notAskable[0]?.spec} [Conformance]`, "network", false],
].map(([name, sig, isSerial]) => ({ name, sig, isSerial, isConformance: true }) as Spec);
const all: Choice = { focus: [], sigs: [], retriesFailed: false, count: 100 };
const results = new Map(
  (["failed", "timed out"] as const).map((outcome, at): [string, Result] => {
    const name = specs[at]?.name ?? "";
    return [name, { name, outcome, seconds: 1, reason: "" }];
  }),
);

function names(choice: Partial<Choice>, found: ReadonlyMap<string, Result> = new Map()) {
  const plan = planRun(specs, found, { ...all, ...choice });
  return [
    plan.parallel.map(({ name }) => name),
    plan.serial.map(({ name }) => name),
    plan.finished,
  ];
}

describe("planRun()", () => {
  it("runs serial specs behind the others, and never those that cannot be asked", () => {
    assert.deepEqual(names({}), [["one", "three"], ["two"], 0]);
  });

  it("chooses by SIG and by a part of the name", () => {
    assert.deepEqual(names({ sigs: ["network"] }), [["three"], ["two"], 0]);
    assert.deepEqual(names({ focus: ["hre", "on"] }), [["one", "three"], [], 0]);
  });

  it("goes on where a run before stopped, with failed ones if they are to run again", () => {
    assert.deepEqual(names({}, results), [["three"], [], 2]);
    assert.deepEqual(names({ retriesFailed: true }, results), [["one", "three"], ["two"], 0]);
  });

  it("takes no more than the count, parallel specs first", () => {
    assert.deepEqual(names({ count: 2 }), [["one", "three"], [], 0]);
  });
});
