import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { CloudDriver } from "@kip/cloud";
import type { CellSpec, StandbySpec } from "../state/cell.ts";
import { launchExtras } from "./launch-extras.ts";
import { fits, poolKey } from "./standby-spec.ts";

const driver = (...has: readonly string[]) => ({ launchExtras: has }) as unknown as CloudDriver; // the fields that are read
const asked = { instanceProfile: "pod", securityGroups: ["sg-2", "sg-1"] };

describe("launchExtras()", () => {
  it("are what the pod asks for, else the default, of what the cloud has", () => {
    const aws = driver("instanceProfile", "securityGroups");
    assert.deepEqual(launchExtras(asked, { instanceProfile: "all" }, aws), asked);
    assert.deepEqual(launchExtras({}, { instanceProfile: "all" }, aws), { instanceProfile: "all" });
    assert.deepEqual(launchExtras({ securityGroups: [] }, {}, aws), {});
    const routed = { routes: ["10.1.0.0/16"] };
    assert.deepEqual(launchExtras(routed, {}, aws), {});
    assert.deepEqual(launchExtras(routed, {}, driver("routes")), routed);
    assert.deepEqual(launchExtras(asked, { instanceProfile: "all" }, driver()), {});
  });
});

describe("fits()", () => {
  const machine = { instanceType: "a", launchType: "spot", image: "i", privateIPOnly: false };
  const standby = (more: object) => ({ ...machine, ...more }) as unknown as StandbySpec;
  const isTaken = (pod: object, more: object): boolean =>
    fits({ spec: { ...machine, ...pod } as unknown as CellSpec, zones: [] }, standby(more));

  it("takes a standby cell that may do what the pod may do, and nothing else", () => {
    assert.ok(isTaken({}, {}) && isTaken(asked, { ...asked, securityGroups: ["sg-1", "sg-2"] }));
    assert.ok(!isTaken({ instanceProfile: "pod" }, {}));
    assert.ok(!isTaken({ instanceProfile: "pod" }, { instanceProfile: "all" }));
    assert.ok(!isTaken({}, { instanceProfile: "all" }));
    assert.ok(!isTaken({ securityGroups: ["sg-1"] }, {}));
    assert.ok(!isTaken({ routes: ["10.1.0.0/16"] }, {}));
  });

  it("replaces standby cells when the default profile changes", () => {
    assert.notEqual(poolKey(standby({})), poolKey(standby({ instanceProfile: "all" })));
  });
});
