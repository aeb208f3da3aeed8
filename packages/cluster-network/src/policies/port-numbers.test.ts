import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { limits, type PolicyRule } from "@kip/network-view";
import * as fc from "fast-check";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { AddressGroups } from "./address-groups.ts";
import type { PodFacts } from "./pod-facts.ts";
import { withNumbers, type NamedRules } from "./named-rules.ts";
import { fairShare, maxNumbers, maxNumbersOfList } from "./port-numbers.ts";
import type { TierPolicy } from "./tier-policy.ts";
import { tierRules } from "./tier-rules.ts";

const everyPod = { namespaceSelector: {}, podSelector: {} };
const web = { name: "web", protocol: "TCP" } as const;
const rising = (count: number, first: number): readonly number[] =>
  Array.from({ length: count }, (_, i) => first + i);

/** A pod whose port has these numbers. */
function pod(name: string, numbers: readonly number[]): PodFacts {
  const ports = numbers.map((port) => ({ ...web, port }));
  return { namespace: "a", name, labels: {}, addresses: [`10.0.0.${name}`], ports };
}

function start(...pods: readonly PodFacts[]): AddressGroups {
  const groups = new AddressGroups();
  groups.setNamespace("a", {});
  for (const each of pods) groups.setPod(each.name, each);
  groups.hold(groups.numbersName(everyPod, web), 1);
  groups.settle();
  return groups;
}

describe("numbers of a named port", () => {
  it("are at most 256. Those of ordinary pods come before those of a pod with thousands, then smaller ones first", () => {
    const groups = start(pod("1", rising(4200, 1000)), pod("2", [9090]), pod("3", [9090, 8080]));
    assert.deepEqual(groups.portNumbers(everyPod, web), {
      numbers: [...rising(254, 1000), 8080, 9090],
      areAll: false,
    });
    const name = groups.numbersName(everyPod, web);
    assert.equal(groups.sizeOf(name).numbers, maxNumbers);
    assert.equal(groups.sizeOf(name).addresses, maxNumbers + 3);
  });

  it("do not depend on the order in which pods arrived, and change only when rules change", () => {
    const step = fc.record({
      name: fc.integer({ min: 1, max: 5 }).map(String),
      first: fc.integer({ min: 1, max: 40 }),
      count: fc.integer({ min: 0, max: 300 }),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
        const groups = start();
        const pods = new Map<string, PodFacts>();
        const name = groups.numbersName(everyPod, web);
        groups.settle();
        let before = groups.portNumbers(everyPod, web);
        for (const { name: of, first, count } of steps) {
          const facts = count > 0 ? pod(of, rising(count, first)) : undefined;
          if (facts) pods.set(of, facts);
          else pods.delete(of);
          groups.setPod(of, facts);
          groups.settle();
          const isChanged = groups.takeChanges().get(name)?.isChanged ?? false;
          const now = groups.portNumbers(everyPod, web);
          assert.deepEqual(now, start(...pods.values()).portNumbers(everyPod, web));
          assert.equal(isChanged, JSON.stringify(now) !== JSON.stringify(before));
          before = now;
        }
      }),
      { numRuns: 60 },
    );
  });

  it("that have no rule are closed by rules that deny or pass, in pods that have them", () => {
    const groups = start(pod("1", rising(300, 1000)), pod("2", [9090]));
    const closingOf = (action: "allow" | "deny" | "pass") => {
      const match = { pods: [everyPod], nodes: [], networks: [], ports: [{ name: "web" }] };
      const egress = [{ action, match }];
      const policy: TierPolicy = {
        title: "t",
        name: "t",
        about: { apiVersion: "v1", kind: "K", name: "t" },
        tier: "admin",
        priority: 1,
        subject: everyPod,
        ingress: [],
        egress,
      };
      const { rules } = tierRules(pod("2", []), [policy], { direction: "egress", groups });
      groups.settle();
      assert.ok(rules.slice(0, maxNumbers).every((rule) => rule.action === action));
      return rules.slice(maxNumbers).map(({ groups: names = [], ...rule }) => ({
        ...rule,
        addresses: names.flatMap((name) => groups.addresses(name)),
      }));
    };
    const closed = [{ action: "deny", ports: [{ protocol: "TCP" }], addresses: ["10.0.0.1"] }];
    assert.deepEqual(closingOf("deny"), closed);
    assert.deepEqual(closingOf("pass"), closed);
    assert.deepEqual(closingOf("allow"), []);
  });

  it("take little memory, however many selectors choose pods with thousands of numbers", () => {
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    const groups = start(...rising(20, 0).map((i) => pod(String(i), rising(1000, 1 + i * 1000))));
    collect();
    const before = process.memoryUsage().heapUsed;
    for (let i = 0; i < 64; i++) {
      const podSelector = {
        matchExpressions: [{ key: `k${i}`, operator: "DoesNotExist" as const }],
      };
      const selector = { namespaceSelector: {}, podSelector };
      groups.hold(groups.numbersName(selector, web), 1);
    }
    groups.settle();
    collect();
    const grown = process.memoryUsage().heapUsed - before;
    assert.ok(grown < 8e6, `${grown} bytes`);
    assert.equal(groups.sizeOf(groups.numbersName(everyPod, web)).addresses, 20 * maxNumbers);
  });

  it("of which only some have rules are those of most pods, and a change of the choice is reported", () => {
    const groups = start(pod("1", [1, 2, 3, 4]), pod("2", [3, 4]), pod("3", [4, 9090]));
    const first = (most: number) => groups.portNumbers(everyPod, web, most);
    assert.deepEqual(first(2), { numbers: [3, 4], areAll: false });
    assert.deepEqual(first(5), { numbers: [1, 2, 3, 4, 9090], areAll: true });
    const name = groups.numbersName(everyPod, web);
    groups.takeChanges();
    groups.setPod("4", pod("4", [9090]));
    groups.settle();
    const { isChanged, isReranked } = groups.takeChanges().get(name) ?? {};
    assert.deepEqual({ isChanged, isReranked }, { isChanged: false, isReranked: true });
    assert.deepEqual(first(2), { numbers: [4, 9090], areAll: false });
  });

  it("are shared in one list of rules, which leaves out no plain rule and never becomes too long", () => {
    const ports = rising(30, 0).map((i) => ({ name: `p${i}`, protocol: "TCP" as const }));
    const groups = new AddressGroups();
    groups.setNamespace("a", {});
    const numbersOf = (i: number) => (i === 7 ? [9090] : rising(300, 1000));
    const named = ports.flatMap((port, i) =>
      numbersOf(i).map((number) => ({ ...port, port: number })),
    );
    groups.setPod("1", {
      namespace: "a",
      name: "1",
      labels: {},
      addresses: ["10.0.0.1"],
      ports: named,
    });
    const drafts = ports.map((port) => {
      const each = { selector: everyPod, port };
      const of: NamedRules<PolicyRule>["of"] = (found) =>
        found(each).numbers.map((number) => ({ ports: [{ protocol: "TCP", port: number }] }));
      return { title: port.name, rule: { ports: [each], of } };
    });
    const plain = (count: number) => rising(count, 0).map(() => ({ title: "plain", rule: {} }));
    withNumbers(drafts, groups);
    groups.settle();
    for (const [others, share] of [
      [0, 70],
      [2000, 70],
      [16_384, 70],
      [limits.rules - 96, 2],
      [limits.rules, 0],
    ] as const) {
      const rules = withNumbers([...plain(others), ...drafts], groups);
      const count = (title: string) => rules.filter((each) => each.title === title).length;
      const counts = ports.map(({ name }) => count(name));
      assert.deepEqual(
        counts,
        ports.map((_, i) => (i === 7 ? Math.min(1, share) : share)),
      );
      assert.equal(count("plain"), others);
      assert.ok(
        rules.length <= Math.max(others, limits.rules) &&
          counts.reduce((a, b) => a + b) <= maxNumbersOfList,
      );
    }
  });
});

describe("fairShare()", () => {
  it("lets ports with few numbers keep all, and shares the rest between the others", () => {
    const counts = fc.array(fc.nat({ max: maxNumbers }), { maxLength: 40 });
    fc.assert(
      fc.property(counts, fc.integer({ min: -10, max: 4096 }), (all, room) => {
        const share = fairShare(all, room);
        const given = (most: number) => all.reduce((sum, count) => sum + Math.min(count, most), 0);
        assert.ok(given(share) <= Math.max(0, room));
        if (given(share) < given(maxNumbers)) assert.ok(given(share + 1) > room);
      }),
    );
  });
});
