import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { runsAgain, runsAgainWhenKilled } from "./restart-policy.ts";

const rule = (operator: string, ...values: number[]) => ({
  action: "Restart",
  exitCodes: { operator, values },
});

describe("runsAgain()", () => {
  it("follows the pod's policy for a container without one", () => {
    const rows = ["Always", "OnFailure", "Never"].map((policy) =>
      [0, 1].map((code) => runsAgain({}, policy, code)),
    );
    assert.deepEqual(rows, [
      [true, true],
      [false, true],
      [false, false],
    ]);
  });

  it("prefers the container's own policy", () => {
    assert.equal(runsAgain({ restartPolicy: "Never" }, "Always", 1), false);
    assert.equal(runsAgain({ restartPolicy: "Always" }, "Never", 0), true);
    assert.equal(runsAgain({ restartPolicy: "OnFailure" }, "Never", 0), false);
    assert.equal(runsAgain({ restartPolicy: "OnFailure" }, "Never", 2), true);
  });

  it("looks at rules by exit code first, and only beside a policy", () => {
    const own = { restartPolicy: "Never", restartPolicyRules: [rule("In", 42, 43)] };
    assert.deepEqual(
      [42, 43, 1, 0].map((code) => runsAgain(own, "Never", code)),
      [true, true, false, false],
    );
    const other = { restartPolicy: "Never", restartPolicyRules: [rule("NotIn", 1)] };
    assert.deepEqual(
      [0, 1, 2].map((code) => runsAgain(other, "Never", code)),
      [true, false, true],
    );
    assert.equal(runsAgain({ restartPolicyRules: [rule("In", 1)] }, "Never", 1), false);
  });

  it("goes on to the policy where no rule says anything it knows", () => {
    const strange = [
      { action: "RestartAllContainers", exitCodes: { operator: "In", values: [1] } },
    ];
    const own = { restartPolicy: "OnFailure", restartPolicyRules: strange };
    assert.deepEqual(
      [0, 1].map((code) => runsAgain(own, "Never", code)),
      [false, true],
    );
    const without = { restartPolicy: "Never", restartPolicyRules: [{ action: "Restart" }] };
    assert.equal(runsAgain(without, "Always", 1), false);
  });
});

describe("runsAgainWhenKilled()", () => {
  it("looks at policies alone", () => {
    const own = { restartPolicy: "Never", restartPolicyRules: [rule("NotIn", 0)] };
    assert.equal(runsAgainWhenKilled(own, "Always"), false);
    assert.equal(runsAgainWhenKilled({ restartPolicy: "OnFailure" }, "Never"), true);
    assert.equal(runsAgainWhenKilled({}, "Never"), false);
  });
});
