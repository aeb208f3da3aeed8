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

  it("closes the protocol of a pod that has more numbers of a named port than can have rules, unless the rule allows", () => {
    const rulesOf = (numbers: number, action: "allow" | "deny" | "pass") => {
      const ports = Array.from({ length: numbers }, (_, i) => ({
        name: "web",
        protocol: "TCP" as const,
        port: i + 1,
      }));
      const match = { pods: [], nodes: [], networks: [], ports: [{ name: "web" }] };
      const policies = [{ ...policy("K a", 1), ingress: [{ action, match }] }];
      const of = { direction: "ingress", groups } as const;
      const { rules } = tierRules({ ...pod, ports }, policies, of);
      return rules.map((rule) => [rule.action, rule.ports?.length, rule.ports?.[0]?.port]);
    };
    assert.deepEqual(rulesOf(256, "deny"), [["deny", 256, 1]]);
    const closing = ["deny", 1, undefined];
    assert.deepEqual(rulesOf(257, "deny"), [["deny", 256, 1], closing]);
    assert.deepEqual(rulesOf(257, "pass"), [["pass", 256, 1], closing]);
    assert.deepEqual(rulesOf(257, "allow"), [["allow", 256, 1]]);
  });
});
