import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { podWith } from "@kip/k8s-types/testing";
import { bucketCount, ChangeReader, type PolicyView } from "@kip/network-view";
import { ManualClock } from "@kip/testing";
import { NetworkViews } from "./network-views.ts";

const sums = Array<number>(bucketCount).fill(0);

/**
 * A cell with a pod of the namespace `good`, whose port `web` has the number 9090.
 *
 * @param names of ports that a pod of another namespace will have; default `web`
 */
function start(names: readonly string[] = ["web"]) {
  const clock = new ManualClock();
  const stop = new AbortController();
  const views = new NetworkViews({ node: { name: "kip" }, clock, signal: stop.signal });
  let policy: PolicyView | undefined;
  const setPod = (namespace: string, podIP: string, numbers: readonly number[]): void => {
    const metadata = { namespace, name: "p", uid: namespace, resourceVersion: "1" };
    const containers = numbers.map((containerPort) => ({
      name: `c${containerPort}`,
      image: "x",
      ports: (namespace === "good" ? ["web"] : names).map((name) => ({ name, containerPort })),
    }));
    const status = { podIP, podIPs: [{ ip: podIP }] };
    views.setPod(podWith({ metadata, spec: { containers }, status }));
  };
  for (const name of ["good", "evil", "late"])
    views.setNamespace({ metadata: { name, namespace: "", uid: name, resourceVersion: "1" } });
  setPod("good", "10.0.0.1", [9090]);
  const run = async (): Promise<void> => {
    const of = { podUid: "good", namespace: "good", sums, knowsTiers: true };
    const subscription = views.subscribe(of);
    const reader = new ChangeReader();
    for (;;)
      for (const piece of await subscription.next(stop.signal))
        for (const change of reader.push(piece)) policy = change.policy ?? policy;
  };
  run().catch(() => {});
  /** What the pod has, once a pod of another namespace has these numbers for the ports. */
  const withNumbers = async (numbers: readonly number[]): Promise<PolicyView | undefined> => {
    setPod("evil", "10.0.0.2", numbers);
    for (let round = 0; round < 10; round++) {
      await clock.advance(1000);
      for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
    }
    return policy;
  };
  const withManyNumbers = async (count = 4200): Promise<PolicyView | undefined> =>
    await withNumbers(rising(count)).finally(() => stop.abort());
  return { views, setPod, withNumbers, withManyNumbers };
}

const rising = (count: number): readonly number[] =>
  Array.from({ length: count }, (_, i) => 1000 + i);

/** The numbers that rules are for. */
function numbersOf(rules: PolicyView["egress"] = []): readonly (number | undefined)[] {
  return rules.flatMap(({ ports = [] }) => ports.map(({ port }) => port));
}

describe("NetworkViews, with very many numbers of a named port", () => {
  it("keeps what a NetworkPolicy of another namespace allows", async () => {
    const { views, withManyNumbers } = start();
    const dns = { ports: [{ port: 53, protocol: "UDP" as const }] };
    const named = { to: [{ namespaceSelector: {} }], ports: [{ port: "web" }] };
    const metadata = { namespace: "good", name: "e", uid: "e", resourceVersion: "1" };
    const spec = { podSelector: {}, policyTypes: ["Egress"], egress: [dns, named] };
    views.setPolicy({ metadata, spec });
    const numbers = numbersOf((await withManyNumbers())?.egress);
    assert.equal(numbers.length, 1 + 256);
    assert.ok(numbers.includes(53) && numbers.includes(9090));
  });

  it("keeps what an administrator's policy allows", async () => {
    const { views, withManyNumbers } = start();
    const rule = { action: "Allow", to: [{ namespaces: {} }], ports: [{ namedPort: "web" }] };
    const spec = { priority: 1, subject: { namespaces: {} }, egress: [rule] };
    views.setTierPolicy("AdminNetworkPolicy", { metadata: { name: "monitor" }, spec });
    const numbers = numbersOf((await withManyNumbers())?.admin?.egress);
    assert.equal(numbers.length, 256);
    assert.ok(numbers.includes(9090));
  });

  it("keeps all numbers of a name that has few, and gives the others the same share each", async () => {
    const names = Array.from({ length: 63 }, (_, i) => `p${i}`);
    const { views, withManyNumbers } = start(names);
    const ports = ["web", ...names].map((port) => ({ port }));
    const metadata = { namespace: "good", name: "e", uid: "e", resourceVersion: "1" };
    const egress = [{ to: [{ namespaceSelector: {} }], ports }];
    views.setPolicy({ metadata, spec: { podSelector: {}, policyTypes: ["Egress"], egress } });
    const numbers = numbersOf((await withManyNumbers(300))?.egress);
    // 63 names share 2,047 numbers.
    assert.deepEqual(numbers, [9090, ...names.flatMap(() => rising(32))]);
  });

  it("has an administrator's rule that denies many such names close the numbers that have no rule", async () => {
    const names = Array.from({ length: 40 }, (_, i) => `p${i}`);
    const { views, withManyNumbers } = start(names);
    const ports = ["web", ...names].map((namedPort) => ({ namedPort }));
    const rule = (action: string) => ({ action, to: [{ namespaces: {} }], ports });
    const spec = { priority: 1, subject: { namespaces: {} }, egress: [rule("Deny")] };
    views.setTierPolicy("AdminNetworkPolicy", { metadata: { name: "monitor" }, spec });
    const rules = (await withManyNumbers(300))?.admin?.egress ?? [];
    const numbers = numbersOf(rules);
    assert.equal(numbers.filter((each) => each === 9090).length, 1);
    assert.equal(numbers.filter((each) => each === undefined).length, names.length);
    assert.equal(numbers.length, 1 + names.length * (51 + 1));
    assert.ok(rules.every(({ action }) => action === "deny"));
  });

  it("replaces the rules of a name that has only some when others of its numbers become the most common", async () => {
    const names = rising(40).map((i) => `p${i}`);
    const { views, setPod, withNumbers, withManyNumbers } = start(names);
    const metadata = { namespace: "good", name: "e", uid: "e", resourceVersion: "1" };
    const egress = [{ to: [{ namespaceSelector: {} }], ports: names.map((port) => ({ port })) }];
    views.setPolicy({ metadata, spec: { podSelector: {}, policyTypes: ["Egress"], egress } });
    const isOfAll = (policy: PolicyView | undefined, number: number): boolean =>
      numbersOf(policy?.egress).filter((each) => each === number).length === names.length;
    const first = await withNumbers(rising(250));
    assert.deepEqual([isOfAll(first, 1050), isOfAll(first, 1200)], [true, false]);
    setPod("late", "10.0.0.3", [1200]);
    const second = await withManyNumbers(250);
    assert.deepEqual([isOfAll(second, 1050), isOfAll(second, 1200)], [false, true]);
  });
});
