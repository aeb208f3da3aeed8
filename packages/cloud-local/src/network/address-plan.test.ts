import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CloudError } from "@kip/cloud";
import { assert as checkProperty, integer, property } from "fast-check";
import { planAddresses } from "./address-plan.ts";
import { cidrsOverlap } from "./cidrs.ts";

describe("planAddresses()", () => {
  it("lays out the default range", () => {
    const plan = planAddresses("198.18.0.0/15");
    assert.deepEqual(
      [
        plan.host,
        plan.gateway,
        plan.clusterDns,
        plan.relay,
        plan.machines,
        plan.pods,
        plan.uplink,
        plan.uplinkDns,
      ],
      [
        "198.18.0.1",
        "198.18.0.2",
        "198.18.0.3",
        "198.18.0.4",
        "198.18.0.0/16",
        "198.19.0.0/16",
        "198.18.255.0/24",
        "198.18.255.3",
      ],
    );
    assert.deepEqual([plan.machine(0), plan.pod(0)], ["198.18.0.16", "198.19.0.16"]);
    const last = plan.capacity - 1;
    assert.deepEqual([plan.machine(last), plan.pod(last)], ["198.18.254.254", "198.19.254.254"]);
    assert.equal(plan.machine(plan.preloadSlot), "198.18.254.255");
    assert.throws(() => plan.machine(plan.preloadSlot + 1), RangeError);
  });

  it("clears host bits", () => {
    assert.equal(planAddresses("198.18.67.9/18").range, "198.18.64.0/18");
  });

  it("refuses a range that is invalid, too small or too large", () => {
    for (const text of ["", "198.18.0.0", "198.18.0.0/23", "10.0.0.0/7", "1.2.3.400/16", "::/15"])
      assert.throws(
        () => planAddresses(text),
        (error) => CloudError.is(error, "CLOUD_INVALID_REQUEST"),
        text,
      );
  });

  it("keeps machines, pods and the rest apart in every range", () => {
    checkProperty(
      property(integer({ min: 8, max: 22 }), integer({ min: 0, max: 2 ** 31 }), (length, seed) => {
        const plan = planAddresses(`10.0.0.0/${length}`);
        const slot = seed % plan.capacity;
        const [machine, pod] = [plan.machine(slot), plan.pod(slot)];
        assert.ok(cidrsOverlap(machine, plan.machines) && cidrsOverlap(pod, plan.pods));
        assert.ok(!cidrsOverlap(machine, plan.pods) && !cidrsOverlap(machine, plan.uplink));
        assert.ok(![plan.host, plan.gateway, plan.clusterDns, plan.relay].includes(machine));
      }),
    );
  });
});
