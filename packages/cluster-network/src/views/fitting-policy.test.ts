import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { decodeLine, limits, type PolicyRule, type PolicyView } from "@kip/network-view";
import { fittingPolicy, fitsEarlierAgents, isClosedIn } from "./fitting-policy.ts";

const noGroups = { sizeOf: () => ({ addresses: 0, bytes: 0, numbers: 0 }) };
const deny = { ingress: [{ action: "deny" }] } as const;
const rules = (count: number, more: object = {}) =>
  Array.from({ length: count }, (_, i) => ({
    ports: [{ protocol: "TCP", port: i + 1 } as const],
    ...more,
  }));
const denials = (count: number) =>
  rules(count).map((rule) => ({ ...rule, action: "deny" as const }));
const blocks = (count: number): PolicyRule => ({
  blocks: Array.from({ length: count }, (_, i) => ({
    cidr: `fd00:1111:2222:3333:4444:5555:6666:${(4096 + i).toString(16)}/128`,
  })),
});

/** What a cell whose agent is of a version gets. */
function fitting(policy: PolicyView, version?: number): PolicyView {
  const { policy: found, line } = fittingPolicy(policy, noGroups, version);
  assert.deepEqual(decodeLine(line.trimEnd()), { kind: "policy", policy: found });
  return found;
}

describe("fittingPolicy()", () => {
  it("keeps as many rules, and blocks and exceptions of a rule, as the NetworkPolicies of a pod may have", () => {
    const except = Array.from({ length: 16_383 }, (_, i) => `10.${i >> 8}.${i & 255}.0/24`);
    const policy = {
      ingress: [{ blocks: [{ cidr: "10.0.0.0/8", except }] }],
      egress: rules(16_384),
    };
    assert.equal(fitting(policy), policy);
    const ofBoth = { ingress: [blocks(16_384)], egress: [blocks(16_384)] };
    assert.equal(fitting(ofBoth), ofBoth);
  });

  it("closes the direction alone that is too long", () => {
    const ingress = rules(1);
    const egress = rules(limits.rules + 1);
    assert.deepEqual(fitting({ ingress, egress }), { ingress, egress: [] });
    assert.deepEqual(fitting({ egress }), { egress: [] });
  });

  it("closes of a tier that is too long the direction alone that it restricts", () => {
    const admin = { ingress: deny.ingress, egress: denials(limits.rules + 1) };
    const baseline = { egress: denials(1) };
    assert.deepEqual(fitting({ admin, baseline }), { admin: deny, egress: [] });
    assert.deepEqual(fitting({ baseline: { egress: admin.egress }, ingress: [] }), {
      ingress: [],
      egress: [],
    });
  });

  it("closes the longer direction first if both are too long for one line", () => {
    const many = (count: number) => rules(count, { groups: ["g".repeat(100)] });
    const policy = { ingress: many(7000), egress: many(9000) };
    assert.deepEqual(fitting(policy), { ingress: policy.ingress, egress: [] });
    const mirrored = { ingress: policy.egress, egress: policy.ingress };
    assert.deepEqual(fitting(mirrored), { ingress: [], egress: policy.ingress });
    const large = many(limits.rules);
    assert.deepEqual(fitting({ ingress: large, egress: large }), { ingress: [], egress: [] });
  });

  it("closes for an earlier agent what is too long for that one, and leaves the rest", () => {
    const egress = rules(5000);
    const policy = { ingress: rules(4096), egress, admin: deny };
    assert.equal(fitting(policy), policy);
    assert.equal(fitsEarlierAgents(policy), false);
    assert.deepEqual(fitting(policy, 2), { ...policy, egress: [] });
    assert.deepEqual(fitting({ egress: [blocks(4097)] }, 2), { egress: [] });
    assert.deepEqual(fitting(policy, 1), { ingress: [], egress: [] });
  });

  it("keeps NetworkPolicies in directions without tiers for an agent that does not know these", () => {
    const egress = rules(1);
    const policy = { egress, ingress: egress, admin: deny };
    assert.equal(fitsEarlierAgents(policy), true);
    assert.deepEqual(fitting(policy, 1), { ingress: [], egress });
  });
});

it("isClosedIn() tells the directions that were closed", () => {
  const egress = denials(limits.rules + 1);
  const wanted = { ingress: [], egress: [], admin: { ingress: deny.ingress, egress } };
  const { policy } = fittingPolicy(wanted, noGroups);
  assert.equal(isClosedIn("ingress", { wanted, fitting: policy }), false);
  assert.equal(isClosedIn("egress", { wanted, fitting: policy }), true);
});
