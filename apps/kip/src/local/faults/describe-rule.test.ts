import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { FaultRule } from "@kip/cloud/faults";
import { describeRule } from "./describe-rule.ts";

describe("describeRule()", () => {
  const cases: readonly (readonly [FaultRule, string])[] = [
    [{ kind: "no-capacity", scope: {} }, "no capacity: no new cell of any type starts"],
    [
      { kind: "no-capacity", scope: { instanceType: "local.nano", launchType: "spot" } },
      "no capacity: no new cell of local.nano, spot capacity starts",
    ],
    [{ kind: "slow-launch", ms: 1500 }, "slow launch: a new cell of any type takes 1.5 s more"],
    [
      { kind: "throttle", calls: 2, until: 0 },
      "throttled: the cloud refuses calls, 2 more times, or until 1970-01-01T00:00:00.000Z",
    ],
    [
      { kind: "fail", operation: "launch", code: "CLOUD_QUOTA", calls: 1, moment: "after" },
      "failure: the call launch is done and its answer lost, with CLOUD_QUOTA, 1 more time",
    ],
  ];
  for (const [rule, words] of cases)
    it(`says "${words}"`, () => assert.equal(describeRule(rule), words));
});
