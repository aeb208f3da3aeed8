import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { healthText, type HealthCheck } from "./health.ts";

const checks: readonly HealthCheck[] = [
  { name: "ping", check: () => {} },
  {
    name: "syncloop",
    check: async () => {
      throw new Error("the cloud is away");
    },
  },
];

describe("healthText()", () => {
  it("is ok in one word, or check by check", async () => {
    const good = checks.slice(0, 1);
    const query = { isVerbose: false, excluded: [] };
    assert.equal(await healthText(good, query, assert.fail), "ok");
    const verbose = await healthText(good, { ...query, isVerbose: true }, assert.fail);
    assert.equal(verbose, "[+]ping ok\nhealthz check passed\n");
  });

  it("names what failed and keeps the reason for the log", async () => {
    const failures: unknown[] = [];
    const query = { isVerbose: false, excluded: [] };
    await assert.rejects(
      healthText(checks, query, (name, error) => failures.push(name, String(error))),
      {
        status: 500,
        message: "[+]ping ok\n[-]syncloop failed: reason withheld\nhealthz check failed\n",
      },
    );
    assert.deepEqual(failures, ["syncloop", "Error: the cloud is away"]);
  });

  it("makes one check, or leaves some out", async () => {
    const query = { isVerbose: false, excluded: [] };
    assert.equal(await healthText(checks, { ...query, only: "ping" }, assert.fail), "ok");
    const excluded = { ...query, excluded: ["syncloop"] };
    assert.equal(await healthText(checks, excluded, assert.fail), "ok");
    await assert.rejects(healthText(checks, { ...query, only: "syncloop" }, () => {}));
  });
});
