import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { PolicyView } from "@kip/network-view";
import { families } from "./family.ts";
import { policyRules } from "./policy-rules.ts";

const [ip4, ip6] = families;
const groups = new Set(["g"]);

function rules(policy: PolicyView, family = ip4) {
  assert.ok(family);
  return policyRules(policy, groups, family);
}

describe("policyRules()", () => {
  it("gives each family its own set of a group, and its own blocks", () => {
    const blocks = [{ cidr: "10.0.0.0/8" }, { cidr: "fd00::/8", except: ["fd01::/16"] }];
    const policy = { egress: [{ groups: ["g"], blocks }] };
    assert.deepEqual(rules(policy).chains.get("egress"), [
      "ip daddr @group/g accept",
      "ip daddr { 10.0.0.0/8 } accept",
    ]);
    assert.deepEqual(rules(policy, ip6).chains.get("egress"), [
      "ip6 daddr @group/g accept",
      "ip6 daddr fd00::/8 ip6 daddr != { fd01::/16 } accept",
    ]);
  });

  it("accepts everything in a direction that no policy restricts, and nothing in an empty one", () => {
    assert.deepEqual(rules({ egress: [] }).chains.get("egress"), []);
    assert.deepEqual(rules({}).chains.get("egress"), ["accept"]);
  });

  it("accepts nothing from peers of which there are none", () => {
    assert.deepEqual(rules({ egress: [{ groups: [], blocks: [] }] }).chains.get("egress"), []);
  });

  it("writes ports by protocol, and ranges that overlap as one", () => {
    const ports = [
      { protocol: "TCP", port: 80, endPort: 90 },
      { protocol: "TCP", port: 85, endPort: 95 },
      { protocol: "TCP", port: 443 },
      { protocol: "UDP" },
    ] as const;
    assert.deepEqual(rules({ egress: [{ ports }] }).chains.get("egress"), [
      "meta l4proto tcp th dport { 80-95, 443 } accept",
      "meta l4proto udp accept",
    ]);
  });

  it("has the administrator's rules first, and the baseline only where no NetworkPolicy restricts", () => {
    const admin = { egress: [{ action: "pass" as const, groups: ["g"] }] };
    const baseline = { egress: [{ action: "deny" as const }] };
    const open = rules({ admin, baseline });
    assert.deepEqual(open.chains.get("admin_egress"), ["ip daddr @group/g return"]);
    assert.deepEqual(open.chains.get("egress"), ["jump admin_egress", "drop", "accept"]);
    const restricted = rules({ admin, baseline, egress: [] });
    assert.deepEqual(restricted.chains.get("egress"), ["jump admin_egress"]);
    assert.deepEqual(restricted.chains.get("ingress"), ["ip saddr @nodes accept", "accept"]);
  });
});
