import assert from "node:assert/strict";
import { it } from "node:test";
import { decodeLine } from "@kip/network-view";
import { fittingPolicy } from "./fitting-policy.ts";

const noGroups = { sizeOf: () => ({ addresses: 0, bytes: 0, numbers: 0 }) };
const deny = { ingress: [{ action: "deny" }] } as const;
const tooLong = Array.from({ length: 5000 }, (_, i) => ({
  ports: [{ protocol: "TCP", port: i + 1 } as const],
}));

it("fittingPolicy closes what is too long also where an agent does not know the tiers before it", () => {
  const { policy, line } = fittingPolicy({ egress: tooLong, admin: deny }, noGroups, false);
  assert.deepEqual(policy, { ingress: [], egress: [] });
  assert.deepEqual(decodeLine(line.trimEnd()), { kind: "policy", policy });
});

it("fittingPolicy keeps NetworkPolicies in directions without tiers for an agent that does not know these", () => {
  const egress = tooLong.slice(0, 1);
  const { policy } = fittingPolicy({ egress, ingress: egress, admin: deny }, noGroups, false);
  assert.deepEqual(policy, { ingress: [], egress });
});
