import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { PodFacts } from "./pod-facts.ts";
import { noNumbers } from "./port-numbers.ts";
import type { TierPolicy } from "./tier-policy.ts";
import { tierRules } from "./tier-rules.ts";

const pod: PodFacts = { namespace: "shop", name: "a", labels: {}, addresses: [], ports: [] };
const groups = { name: () => "group", portNumbers: () => noNumbers };

function policy(title: string, priority: number): TierPolicy {
  const everyPod = { namespaceSelector: {}, podSelector: {} };
  const rule = { action: "deny" } as const;
  const rules = { ingress: [rule], egress: [] };
  const about = { apiVersion: "v1", kind: "K", name: title };
  return { title, name: title, about, tier: "admin", priority, subject: everyPod, ...rules };
}

describe("tierRules()", () => {
  it("has the rules of several policies by priority, and of one priority by kind and name", () => {
    const policies = [policy("K b", 7), policy("K z", 3), policy("J c", 7), policy("K a", 10)];
    const { titles } = tierRules(pod, policies, { direction: "ingress", groups });
    assert.deepEqual(titles, ["K z", "J c", "K b", "K a"]);
  });
});
