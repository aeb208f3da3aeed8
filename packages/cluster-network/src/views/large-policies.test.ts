import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { podWith } from "@kip/k8s-types/testing";
import type { NetworkPolicy } from "@kip/k8s-types/network";
import { bucketCount, ChangeReader, type PolicyView } from "@kip/network-view";
import { ManualClock } from "@kip/testing";
import { NetworkViews } from "./network-views.ts";

const sums = Array<number>(bucketCount).fill(0);
/** Each has every pod. */
const selectors = (count: number) =>
  Array.from({ length: count }, (_, i) => ({
    matchExpressions: [{ key: `k${i}`, operator: "DoesNotExist" as const }],
  }));

class Bench {
  readonly clock = new ManualClock();
  readonly stop = new AbortController();
  readonly events: string[] = [];
  readonly views = new NetworkViews({
    node: { name: "kip" },
    clock: this.clock,
    signal: this.stop.signal,
    events: {
      record: ({ apiVersion, kind, namespace, name, uid }, { reason }) => {
        assert.equal(uid, name);
        assert.equal(namespace, apiVersion.startsWith("policy.") ? undefined : "default");
        this.events.push(`${reason} ${kind} ${name}`);
      },
    },
  });
  #pods = 0;

  constructor(pods: number) {
    const metadata = { name: "default", namespace: "", uid: "default", resourceVersion: "1" };
    this.views.setNamespace({ metadata: { ...metadata, labels: {} } });
    this.setPods(pods);
  }

  /** Pods p0 and so on; each address takes 42 bytes of a line. */
  setPods(count: number): void {
    for (let i = Math.min(count, this.#pods); i < Math.max(count, this.#pods); i++) {
      const podIP = `fd00:1111:2222:3333:4444:5555:6666:${(0x1000 + i).toString(16)}`;
      const metadata = { namespace: "default", name: `p${i}`, uid: `p${i}`, resourceVersion: "1" };
      this.views.setPod(
        podWith({ metadata, status: { podIP, podIPs: [{ ip: podIP }] } }),
        i >= count,
      );
    }
    this.#pods = count;
  }

  setPolicy(name: string, day: number, spec: NonNullable<NetworkPolicy["spec"]>): NetworkPolicy {
    const creationTimestamp = `2026-01-0${day}T00:00:00Z`;
    const metadata = { namespace: "default", name, uid: name, resourceVersion: "1" };
    const policy = { metadata: { ...metadata, creationTimestamp }, spec };
    this.views.setPolicy(policy);
    return policy;
  }

  /** Follows a pod's policy. @returns what it is now */
  follow(
    podUid: string,
    hasShortLists = false,
  ): { readonly now: () => PolicyView | undefined; readonly end: () => void } {
    const reader = new ChangeReader();
    let now: PolicyView | undefined;
    const subscription = this.views.subscribe({
      podUid,
      namespace: "default",
      sums,
      knowsTiers: true,
      hasShortLists,
    });
    const run = async (): Promise<void> => {
      for (;;)
        for (const piece of await subscription.next(this.stop.signal))
          for (const { policy } of reader.push(piece)) now = policy ?? now;
    };
    run().catch(() => {});
    return { now: () => now, end: () => subscription[Symbol.dispose]() };
  }

  /** Lets work go on until it is done. */
  async quiet(): Promise<void> {
    await this.clock.advance(1000);
    for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
  }
}

describe("NetworkViews, with policies that choose very many addresses", () => {
  it("closes a pod when the groups of its NetworkPolicies have grown, with an event, and opens it when they shrink", async () => {
    const bench = new Bench(900);
    const ingress = [{ from: selectors(210).map((podSelector) => ({ podSelector })) }];
    bench.setPolicy("large", 1, { podSelector: {}, ingress });
    const pod = bench.follow("p1");
    await bench.quiet();
    assert.equal(pod.now()?.ingress?.length, 1);
    assert.deepEqual(bench.events, []);
    bench.setPods(960);
    await bench.quiet();
    assert.deepEqual(pod.now(), { ingress: [] });
    assert.deepEqual(bench.events, ["NetworkTooLarge NetworkPolicy large"]);
    bench.setPods(900);
    await bench.quiet();
    assert.equal(pod.now()?.ingress?.length, 1);
    bench.stop.abort();
  });

  it("leaves the youngest policies of a namespace without rules, and older ones as they are", async () => {
    const bench = new Bench(900);
    const ingress = [{ from: selectors(150).map((podSelector) => ({ podSelector })) }];
    const egress = [{ to: selectors(150).map((podSelector) => ({ podSelector })) }];
    const only = (name: string) => ({
      matchExpressions: [{ key: `${name}-not`, operator: "DoesNotExist" as const }],
    });
    bench.setPolicy("old", 1, { podSelector: only("a"), ingress });
    const old = bench.follow("p1");
    await bench.quiet();
    assert.equal(old.now()?.ingress?.length, 1);
    const young = { podSelector: only("b"), policyTypes: ["Egress"], egress };
    bench.setPolicy("young", 2, young);
    await bench.quiet();
    assert.equal(old.now()?.ingress?.length, 1);
    assert.deepEqual(old.now()?.egress, []);
    assert.deepEqual(bench.events, ["NetworkTooLarge NetworkPolicy young"]);
    bench.stop.abort();
  });

  it("gives the largest policy of an administrator an event, and NetworkPolicies of pods that it closes", async () => {
    const bench = new Bench(960);
    const tier = (name: string, count: number): void => {
      const from = selectors(count).map((podSelector) => ({
        pods: { namespaceSelector: {}, podSelector },
      }));
      const spec = {
        priority: 1,
        subject: { namespaces: {} },
        ingress: [{ action: "Allow", from }],
      };
      const metadata = { name, uid: name };
      bench.views.setTierPolicy("AdminNetworkPolicy", { metadata, spec });
    };
    tier("a-few", 20);
    tier("many", 420);
    tier("some", 30);
    const pod = bench.follow("p1");
    await bench.quiet();
    assert.deepEqual(pod.now(), { ingress: [] });
    assert.deepEqual(bench.events, ["NetworkTooLarge AdminNetworkPolicy many"]);
    bench.setPolicy("own", 1, { podSelector: {}, policyTypes: ["Egress"] });
    await bench.quiet();
    assert.deepEqual(pod.now(), { ingress: [], egress: [] });
    assert.deepEqual(bench.events.slice(1), ["NetworkTooLarge NetworkPolicy own"]);
    bench.stop.abort();
  });

  it("opens new pods and earlier ones again whose administrators' policies chose too many addresses", async () => {
    const bench = new Bench(960);
    const from = selectors(420).map((podSelector) => ({
      pods: { namespaceSelector: {}, podSelector },
    }));
    const rule = { action: "Allow", from };
    const spec = { priority: 1, subject: { namespaces: {} }, ingress: [rule] };
    bench.views.setTierPolicy("AdminNetworkPolicy", {
      metadata: { name: "large", uid: "large" },
      spec,
    });
    const first = bench.follow("p1");
    await bench.quiet();
    assert.deepEqual(first.now(), { ingress: [] });
    bench.setPods(940);
    await bench.quiet();
    const second = bench.follow("p2");
    await bench.quiet();
    for (const pod of [first, second]) assert.equal(pod.now()?.admin?.ingress?.length, 1);
    bench.setPods(960);
    await bench.quiet();
    for (const pod of [first, second]) assert.deepEqual(pod.now(), { ingress: [] });
    bench.stop.abort();
  });

  it("has rules of NetworkPolicies with 16,384 rules, blocks and exceptions, and closes that direction for an earlier agent", async () => {
    const bench = new Bench(2);
    const block = (i: number) => ({ cidr: `10.${i >> 8}.${i & 255}.0/24` });
    const many = Array.from({ length: 8192 }, (_, i) => block(i));
    const egress = many.map((ipBlock) => ({ to: [{ ipBlock }] }));
    bench.setPolicy("rules", 1, { podSelector: {}, policyTypes: ["Egress"], egress });
    const from = many.flatMap((ipBlock) => ({ ipBlock }));
    bench.setPolicy("blocks", 2, { podSelector: {}, ingress: [{ from }] });
    const except = many.slice(0, 5000).map(({ cidr }) => cidr);
    const ingress = [{ from: [{ ipBlock: { cidr: "10.0.0.0/8", except } }] }];
    bench.setPolicy("exceptions", 3, { podSelector: {}, ingress });
    const [pod, earlier] = [bench.follow("p1"), bench.follow("p1", true)];
    await bench.quiet();
    assert.deepEqual([pod.now()?.ingress?.length, pod.now()?.egress?.length], [2, 8192]);
    assert.deepEqual(earlier.now(), { ingress: [], egress: [] });
    assert.deepEqual(bench.events, []);
    bench.stop.abort();
  });

  it("has rules of many policies of administrators, and closes a direction alone that has too many", async () => {
    const bench = new Bench(2);
    const deny = (i: number, j: number) => ({
      action: "Deny",
      to: [{ networks: [`10.${i}.${j}.0/24`] }],
    });
    const tier = (i: number): void => {
      const egress = Array.from({ length: 90 }, (_, j) => deny(i, j));
      const metadata = { name: `t${i}`, uid: `t${i}` };
      const spec = { tier: "Admin", priority: i, subject: { namespaces: {} }, egress };
      const apiVersion = "policy.networking.k8s.io/v1beta1";
      bench.views.setTierPolicy("ClusterNetworkPolicy", { apiVersion, metadata, spec });
    };
    for (let i = 0; i < 60; i++) tier(i);
    const ingress = [{ from: [{ podSelector: {} }] }];
    bench.setPolicy("own", 1, { podSelector: {}, ingress });
    const pod = bench.follow("p1");
    await bench.quiet();
    assert.equal(pod.now()?.admin?.egress?.length, 5400);
    for (let i = 60; i < 230; i++) tier(i);
    await bench.quiet();
    assert.deepEqual([pod.now()?.admin, pod.now()?.egress], [undefined, []]);
    assert.equal(pod.now()?.ingress?.length, 1);
    bench.stop.abort();
  });

  it("gives a NetworkPolicy an event that closes a direction as it is over the limits of a pod", async () => {
    const bench = new Bench(2);
    bench.setPolicy("small", 1, { podSelector: {}, policyTypes: ["Ingress"] });
    const ingress = [{ from: selectors(513).map((podSelector) => ({ podSelector })) }];
    bench.setPolicy("many-selectors", 2, { podSelector: {}, ingress });
    const pod = bench.follow("p1");
    await bench.quiet();
    assert.deepEqual(pod.now(), { ingress: [] });
    assert.deepEqual(bench.events, ["NetworkTooLarge NetworkPolicy many-selectors"]);
    bench.stop.abort();
  });

  it("closes a pod with thousands of labels that would be compared with too many long selectors, and no other", async () => {
    const bench = new Bench(2);
    const labels = Object.fromEntries(Array.from({ length: 4096 }, (_, i) => [`l${i}`, ""]));
    const metadata = { namespace: "default", name: "big", uid: "big", resourceVersion: "1" };
    const status = { podIP: "10.0.0.1", podIPs: [{ ip: "10.0.0.1" }] };
    const setBig = (own: Record<string, string>): void => {
      bench.views.setPod(podWith({ metadata: { ...metadata, labels: own }, status }));
    };
    setBig(labels);
    // None selects a pod; with what it would allow, a pod that counts as selected must not be open.
    const required = (i: number) => [
      ...Array.from({ length: 4095 }, (_, j) => ({ key: `l${j}`, operator: "Exists" as const })),
      { key: `none-${i}`, operator: "Exists" as const },
    ];
    const spec = (i: number) => ({
      podSelector: { matchExpressions: required(i) },
      ingress: [{}],
    });
    for (let i = 0; i < 16; i++) bench.setPolicy(`p${i}`, 1, spec(i));
    const [big, other] = [bench.follow("big"), bench.follow("p1")];
    await bench.quiet();
    assert.deepEqual([big.now(), other.now()], [{}, {}]);
    const last = bench.setPolicy("p16", 2, spec(16));
    await bench.quiet();
    assert.deepEqual([big.now(), other.now()], [{ ingress: [] }, {}]);
    assert.deepEqual(bench.events, ["NetworkTooLarge NetworkPolicy p16"]);
    setBig({});
    await bench.quiet();
    assert.deepEqual(big.now(), {});
    setBig(labels);
    await bench.quiet();
    assert.deepEqual(big.now(), { ingress: [] });
    bench.views.setPolicy(last, true);
    await bench.quiet();
    assert.deepEqual([big.now(), other.now()], [{}, {}]);
    bench.stop.abort();
  });

  it("has rules of pods with few labels beside one that is closed for having thousands, whose policies take no room for it", async () => {
    const bench = new Bench(1);
    const setPod = (name: string, labels: Record<string, string>): void => {
      const metadata = { namespace: "default", name, uid: name, resourceVersion: "1", labels };
      const status = { podIP: "10.0.0.1", podIPs: [{ ip: "10.0.0.1" }] };
      bench.views.setPod(podWith({ metadata, status }));
    };
    const many = Array.from({ length: 4096 }, (_, i) => [`l${i}`, ""] as const);
    setPod("big", Object.fromEntries(many));
    setPod("small", {});
    const ingress = [{ from: selectors(512).map((podSelector) => ({ podSelector })) }];
    // Nine of them fill the room of the namespace.
    for (let i = 0; i < 17; i++) {
      const none = { key: `none-${i}`, operator: "Exists" as const };
      const long = selectors(4000).flatMap((each) => each.matchExpressions);
      bench.setPolicy(`p${i}`, 1, { podSelector: { matchExpressions: [...long, none] }, ingress });
    }
    bench.setPolicy("own", 2, {
      podSelector: { matchExpressions: selectors(1)[0]?.matchExpressions ?? [] },
      ingress,
    });
    const big = bench.follow("big");
    await bench.quiet();
    const small = bench.follow("small");
    await bench.quiet();
    assert.deepEqual(big.now(), { ingress: [] });
    assert.equal(small.now()?.ingress?.[0]?.groups?.length, 512);
    bench.stop.abort();
  });

  it("closes a pod with thousands of labels alone, where the same long selectors choose others, too", async () => {
    const bench = new Bench(0);
    const keys = selectors(4000).flatMap((each) => each.matchExpressions);
    for (let i = 0; i < 17; i++)
      bench.setPolicy(`p${i}`, 1, { podSelector: { matchExpressions: keys }, ingress: [{}] });
    const many = Array.from({ length: 4096 }, (_, i) => [`l${i}`, ""] as const);
    const follow = (name: string, labels: Record<string, string>) => {
      const metadata = { namespace: "default", name, uid: name, resourceVersion: "1", labels };
      const status = { podIP: "10.0.0.1", podIPs: [{ ip: "10.0.0.1" }] };
      bench.views.setPod(podWith({ metadata, status }));
      return bench.follow(name);
    };
    const pods = [follow("a", {}), follow("b", Object.fromEntries(many)), follow("c", {})];
    await bench.quiet();
    assert.deepEqual(
      pods.map((pod) => pod.now()?.ingress?.length),
      [17, 0, 17],
    );
    bench.stop.abort();
  });
});
