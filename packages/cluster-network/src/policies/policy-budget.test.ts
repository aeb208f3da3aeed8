import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { NetworkPolicy, NetworkPolicyEgressRule } from "@kip/k8s-types/network";
import { AddressGroups } from "./address-groups.ts";
import { PolicyBudget } from "./policy-budget.ts";

const numbered = (count: number): readonly number[] => Array.from({ length: count }, (_, i) => i);

const most = { elements: 1000, bytes: 100_000 };

/** A policy that lets in pods with these roles. */
function policy(name: string, month: number, ...roles: readonly string[]): NetworkPolicy {
  const metadata = { namespace: "a", name, uid: name, resourceVersion: "1" };
  const creationTimestamp = `2026-${String(month).padStart(2, "0")}-01T00:00:00Z`;
  const from = roles.map((role) => ({ podSelector: { matchLabels: { role } } }));
  return {
    metadata: { ...metadata, creationTimestamp },
    spec: { podSelector: {}, ingress: [{ from }] },
  };
}

class Bench {
  readonly groups = new AddressGroups();
  readonly budget = new PolicyBudget(this.groups, most);
  readonly refused: string[] = [];

  constructor() {
    this.budget.onRefused = ({ example, count }) =>
      void this.refused.push(`${example.metadata.name} of ${count}`);
  }

  setPods(role: string, count: number): void {
    for (let i = 0; i < 1000; i++) {
      const name = `${role}-${i}`;
      const addresses = [`10.${role.length}.${i >> 8}.${i & 255}`];
      const facts = { namespace: "a", name, labels: { role }, addresses, ports: [] };
      const isThere = this.groups.pod(name) !== undefined;
      if (isThere !== i < count) this.groups.setPod(name, i < count ? facts : undefined);
    }
  }

  /** Has rules made with policies. @returns the names of those that have none */
  use(...policies: readonly NetworkPolicy[]): readonly string[] {
    while (this.budget.charge(policies).length > 0) this.groups.settle();
    for (const each of policies) this.budget.use(each, 1);
    this.budget.settle();
    return policies.flatMap((each) => (this.budget.isRefused(each) ? [each.metadata.name] : []));
  }

  /** Takes changes of groups. @returns names of policies whose place may be another one */
  settle(): readonly string[] {
    this.groups.settle();
    for (const name of this.groups.takeChanges().keys()) this.budget.noteChange(name);
    return [...this.budget.settle()].map(({ metadata }) => metadata.name);
  }
}

describe("PolicyBudget", () => {
  it("refuses the youngest policies of a namespace whose selectors choose too many addresses together", () => {
    const bench = new Bench();
    bench.setPods("many", 500);
    const [old, young] = [policy("old", 1, "many"), policy("young", 2, "many", "none")];
    assert.deepEqual(bench.use(young, old), ["young"]);
    assert.deepEqual(bench.refused, ["young of 1"]);
  });

  it("names the groups of few policies at a time, if those are to be filled", () => {
    const groups = new AddressGroups();
    const budget = new PolicyBudget(groups);
    const policies = numbered(20).map((i) =>
      policy(`n${i}`, 1, ...numbered(200).map((role) => `${i}-${role}`)),
    );
    const sizes: number[] = [];
    while (budget.charge(policies).length > 0) {
      groups.settle();
      sizes.push(groups.size);
    }
    assert.deepEqual(sizes, [600, 1200, 1800, 2400, 3000, 3600, 4000]);
  });

  it("counts what it refuses without storing any address", () => {
    const bench = new Bench();
    bench.setPods("many", 1000);
    const names = new Set<string>();
    const original = bench.groups.name.bind(bench.groups);
    bench.groups.name = (selector) => {
      const name = original(selector);
      names.add(name);
      return name;
    };
    assert.deepEqual(bench.use(policy("large", 1, "many")), ["large"]);
    assert.equal(names.size, 1);
    bench.groups.takeChanges();
    bench.setPods("many", 999);
    bench.groups.settle();
    for (const { add, remove } of bench.groups.takeChanges().values())
      assert.deepEqual([add, remove], [[], []]);
  });

  it("refuses a policy when its groups grow, and admits it when they shrink", () => {
    const bench = new Bench();
    bench.setPods("few", 10);
    assert.deepEqual(bench.use(policy("p", 1, "few")), []);
    bench.setPods("few", 960);
    assert.deepEqual(bench.settle(), ["p"]);
    assert.deepEqual(bench.refused, ["p of 1"]);
    bench.setPods("few", 10);
    assert.deepEqual(bench.settle(), ["p"]);
    assert.deepEqual(bench.use(policy("p", 1, "few")), []);
  });

  it("admits younger policies when an older one is no longer used", () => {
    const bench = new Bench();
    bench.setPods("many", 900);
    const old = policy("old", 1, "many");
    assert.deepEqual(bench.use(old, policy("young", 2, "many")), ["young"]);
    bench.budget.use(old, -1);
    assert.deepEqual(bench.settle(), ["young"]);
  });

  it("gives a policy that was written again the place of its earlier state", () => {
    const bench = new Bench();
    bench.setPods("many", 600);
    const before = policy("p", 1, "many");
    bench.use(before);
    const after = policy("p", 1, "many", "none");
    assert.deepEqual(bench.use(after), []);
    bench.budget.use(before, -1);
    bench.setPods("many", 1000);
    assert.deepEqual(bench.settle(), ["p"]);
  });

  it("compares no pod with policies that have too many selectors together", () => {
    const bench = new Bench();
    const roles = Array.from({ length: 15 }, (_, i) => `r${i}`);
    const policies = [policy("first", 1, ...roles), policy("second", 2, ...roles, "other")];
    const named = new Set<unknown>();
    const original = bench.groups.name.bind(bench.groups);
    bench.groups.name = (selector) => {
      named.add(selector.podSelector.matchLabels?.["role"]);
      return original(selector);
    };
    assert.deepEqual(bench.use(...policies), ["second"]);
    assert.equal(named.has("other"), false);
    bench.budget.use(policies[0] ?? assert.fail(), -1);
    assert.deepEqual(bench.settle(), ["second"]);
    assert.deepEqual(bench.use(policies[1] ?? assert.fail()), []);
  });

  it("counts long selectors for more: each pod that changes is compared with all of their terms", () => {
    const bench = new Bench();
    const long = (name: string, month: number, count: number): NetworkPolicy => {
      const keys = numbered(count).map((i) => `${name}-${i}`);
      const matchExpressions = keys.map((key) => ({ key, operator: "DoesNotExist" as const }));
      const from = [{ podSelector: { matchExpressions } }];
      return { ...policy(name, month), spec: { podSelector: {}, ingress: [{ from }] } };
    };
    assert.deepEqual(bench.use(long("a", 1, 60), long("b", 2, 60), long("c", 3, 40)), ["b"]);
  });

  it("charges what named ports of egress rules need: a group for each number", () => {
    const bench = new Bench();
    bench.groups.setNamespace("a", {});
    for (let i = 0; i < 30; i++) {
      const ports = [{ name: "web", protocol: "TCP" as const, port: 8000 + i }];
      const addresses = [`10.9.0.${i}`];
      bench.groups.setPod(`w${i}`, { namespace: "a", name: "w", labels: {}, addresses, ports });
    }
    const to: NetworkPolicyEgressRule = { ports: [{ port: "web" }] };
    const named = { ...policy("named", 1), spec: { podSelector: {}, egress: [to] } };
    assert.deepEqual(bench.use(named), ["named"]);
  });

  it("weighs a policy once, however many of its groups one pod changes", () => {
    const bench = new Bench();
    const sizeOf = bench.groups.sizeOf.bind(bench.groups);
    let looks = 0;
    bench.groups.sizeOf = (name) => (looks++, sizeOf(name));
    const keys = Array.from({ length: 10 }, (_, i) => `no-${i}`);
    const from = keys.map((key) => ({
      podSelector: { matchExpressions: [{ key, operator: "DoesNotExist" as const }] },
    }));
    const wide = policy("wide", 1);
    bench.use({ ...wide, spec: { podSelector: {}, ingress: [{ from }] } });
    looks = 0;
    bench.setPods("any", 1);
    bench.settle();
    assert.equal(looks, keys.length);
  });

  it("names only groups that there are, whichever policy comes first", () => {
    for (const isYoungFirst of [true, false]) {
      const bench = new Bench();
      const roles = (of: string) => Array.from({ length: 15 }, (_, i) => `${of}-${i}`);
      const list = [policy("young", 2, ...roles("a")), policy("old", 1, ...roles("b"))];
      const names = bench.budget.charge(isYoungFirst ? list : list.toReversed());
      bench.groups.settle();
      // A pod waits for all of them.
      assert.equal(names.filter((name) => bench.groups.isFilled(name)).length, 15);
      assert.equal(names.length, 15);
    }
  });

  it("charges thousands of policies that have no room in a short time", () => {
    const bench = new Bench();
    const many = Array.from({ length: 4000 }, (_, i) => policy(`p${i}`, 1, "one"));
    const started = process.threadCpuUsage();
    assert.equal(bench.budget.charge(many).length > 0, true);
    // If it was decided for all of them after each, more than a second.
    assert.ok(process.threadCpuUsage(started).user / 1000 < 400);
  });
});
