import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CloudError } from "@kip/cloud";
import { planIpv6 } from "./ipv6-plan.ts";

describe("planIpv6()", () => {
  it("lays out a range as one of IPv4", () => {
    const plan = planIpv6("fd6b:6970:0:0:1::9/64");
    assert.deepEqual(
      [plan.range, plan.machines, plan.pods, plan.host, plan.gateway],
      [
        "fd6b:6970::/64",
        "fd6b:6970::/65",
        "fd6b:6970:0:0:8000::/65",
        "fd6b:6970::1",
        "fd6b:6970::2",
      ],
    );
    assert.deepEqual(
      [plan.machine(0), plan.pod(0), plan.machine(65_536)],
      ["fd6b:6970::10", "fd6b:6970::8000:0:0:10", "fd6b:6970::1:10"],
    );
  });

  it("refuses a range that is invalid, too small or too large, or the uplink's", () => {
    for (const text of ["", "fd00::", "fd6b::/8", "fd6b::/101", "198.18.0.0/15", "fd00::/48"])
      assert.throws(
        () => planIpv6(text),
        (error) => CloudError.is(error, "CLOUD_INVALID_REQUEST"),
        text,
      );
  });
});
