import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { podWith } from "@kip/k8s-types/testing";
import { bucketCount, ChangeReader, type PolicyView } from "@kip/network-view";
import { ManualClock } from "@kip/testing";
import { NetworkViews } from "./network-views.ts";

const sums = Array<number>(bucketCount).fill(0);

/** A cell with a pod of the namespace `good`, whose port `web` has the number 9090. */
function start() {
  const clock = new ManualClock();
  const stop = new AbortController();
  const views = new NetworkViews({ node: { name: "kip" }, clock, signal: stop.signal });
  let policy: PolicyView | undefined;
  const setPod = (namespace: string, podIP: string, numbers: readonly number[]): void => {
    const metadata = { namespace, name: "p", uid: namespace, resourceVersion: "1" };
    const containers = numbers.map((containerPort) => ({
      name: `c${containerPort}`,
      image: "x",
      ports: [{ name: "web", containerPort }],
    }));
    const status = { podIP, podIPs: [{ ip: podIP }] };
    views.setPod(podWith({ metadata, spec: { containers }, status }));
  };
  for (const name of ["good", "evil"])
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
  /** What the pod has, once a pod of another namespace has very many numbers for the port. */
  const withManyNumbers = async (): Promise<PolicyView | undefined> => {
    setPod(
      "evil",
      "10.0.0.2",
      Array.from({ length: 4200 }, (_, i) => 1000 + i),
    );
    for (let round = 0; round < 10; round++) {
      await clock.advance(1000);
      for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
    }
    stop.abort();
    return policy;
  };
  return { views, withManyNumbers };
}

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
});
