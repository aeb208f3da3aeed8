import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { PodFacts } from "./pod-facts.ts";
import { noNumbers } from "./port-numbers.ts";
import { podPolicy } from "./pod-policy.ts";

const pod: PodFacts = { namespace: "shop", name: "a", labels: {}, addresses: [], ports: [] };
const groups = { name: () => "group", portNumbers: () => noNumbers };

/** The blocks that a policy lets in with one exception. */
function blocksWithout(cidr: string, except: string) {
  const metadata = { namespace: "shop", name: "n", uid: "n", resourceVersion: "1" };
  const from = [{ ipBlock: { cidr, except: [except] } }];
  const policy = { metadata, spec: { podSelector: {}, ingress: [{ from }] } };
  const choice = { policies: [policy], tiers: [], hasTooManyLabels: false, isRefused: () => false };
  return podPolicy(pod, choice, groups).view.ingress?.[0]?.blocks;
}

/** What the policy of a pod is that has these numbers for the port `web`, and lets in such ports by each of its rules. */
function policyOfPorts(numbers: number, rules: readonly (readonly string[])[]) {
  const metadata = { namespace: "shop", name: "n", uid: "n", resourceVersion: "1" };
  const ingress = rules.map((names) => ({ ports: names.map((port) => ({ port })) }));
  const policies = [{ metadata, spec: { podSelector: {}, ingress } }];
  const ports = Array.from({ length: numbers }, (_, i) => ({
    name: "web",
    protocol: "TCP" as const,
    port: numbers - i,
  }));
  const choice = { policies, tiers: [], hasTooManyLabels: false, isRefused: () => false };
  const { view, ingress: origins } = podPolicy({ ...pod, ports }, choice, groups);
  const lists = view.ingress?.map(({ ports: list = [] }) => list.map(({ port }) => port));
  return { lists, isOverLimits: origins.isOverLimits };
}

describe("podPolicy()", () => {
  it("has a named port of a pod once in a rule, and the smallest 256 of very many numbers", () => {
    const lists = (numbers: number) => policyOfPorts(numbers, [["web", "web", "api"]]).lists;
    assert.deepEqual(lists(0), []);
    assert.deepEqual(lists(3), [[1, 2, 3]]);
    assert.deepEqual(lists(3000), [Array.from({ length: 256 }, (_, i) => i + 1)]);
  });

  it("lets nothing pass where rules have more ports than one may have, as the pod has very many of a name", () => {
    const rules = Array.from({ length: 200 }, () => ["web"]);
    const { lists, isOverLimits } = policyOfPorts(102, rules);
    assert.deepEqual([lists?.length, isOverLimits], [200, false]);
    assert.deepEqual(policyOfPorts(103, rules), { lists: [], isOverLimits: true });
  });

  it("reads zeros before the numbers of a block, and IPv4 in IPv6, as the API server does", () => {
    const expected = [{ cidr: "10.0.0.0/8", except: ["10.8.0.0/16"] }];
    assert.deepEqual(blocksWithout("010.00.0.0/8", "010.008.000.0/016"), expected);
    assert.deepEqual(blocksWithout("10.0.0.0/8", "::ffff:10.8.0.0/112"), expected);
  });

  it("leaves out a block with an exception that it cannot read, or that is of another IP version", () => {
    for (const except of ["10.0.0.0/33", "ten", "::ffff:10.8.0.0/90", "fd00::/8"])
      assert.equal(blocksWithout("0.0.0.0/0", except), undefined, except);
  });
});
