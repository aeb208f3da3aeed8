import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { podWith } from "@kip/k8s-types/testing";
import type { NetworkPolicy } from "@kip/k8s-types/network";
import { bucketCount, ChangeReader, type PolicyView } from "@kip/network-view";
import { ManualClock } from "@kip/testing";
import { NetworkViews } from "./network-views.ts";

const sums = Array<number>(bucketCount).fill(0);

/** A clock that goes on while something is computed. */
class BusyClock extends ManualClock {
  busyMs = 0;

  override monotonic(): number {
    return super.monotonic() + this.busyMs;
  }
}

class Bench {
  readonly clock = new BusyClock();
  readonly stop = new AbortController();
  readonly events: string[] = [];
  /** Names of the pods whose cells were given a policy, in that order. */
  readonly served: string[] = [];
  readonly views: NetworkViews;

  constructor(rules?: number) {
    const no = { elements: 1e9, bytes: 1e9 };
    this.views = new NetworkViews({
      node: { name: "kip" },
      clock: this.clock,
      signal: this.stop.signal,
      events: {
        record: ({ kind, name }, { reason }) => void this.events.push(`${reason} ${kind} ${name}`),
      },
      most: { services: no, policies: no, rules },
    });
  }

  setPolicy(
    namespace: string,
    name: string,
    spec: NonNullable<NetworkPolicy["spec"]>,
    isGone = false,
  ): void {
    const metadata = { namespace, name, uid: `${namespace}-${name}`, resourceVersion: "1" };
    this.views.setPolicy({ metadata, spec }, isGone);
  }

  setPod(namespace: string, name: string, pod: string): void {
    const uid = `${namespace}-${name}`;
    const podIP = "10.1.0.1";
    const metadata = { namespace, name, uid, resourceVersion: "1", labels: { pod } };
    this.views.setPod(podWith({ metadata, status: { podIP, podIPs: [{ ip: podIP }] } }));
  }

  /** A pod on a cell, with its own label `pod`. @returns its policy now */
  addPod(namespace: string, name: string, pod = name): () => PolicyView | undefined {
    const uid = `${namespace}-${name}`;
    this.setPod(namespace, name, pod);
    const subscription = this.views.subscribe({ podUid: uid, namespace, sums, knowsTiers: true });
    const reader = new ChangeReader();
    let now: PolicyView | undefined;
    const run = async (): Promise<void> => {
      for (;;)
        for (const piece of await subscription.next(this.stop.signal))
          for (const { policy } of reader.push(piece)) {
            now = policy ?? now;
            if (policy) this.served.push(name);
          }
    };
    run().catch(() => {});
    return () => now;
  }

  async turns(count: number): Promise<void> {
    for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve));
  }

  async quiet(): Promise<void> {
    await this.clock.advance(1000);
    await this.turns(50);
  }
}

const from = (cidr: string) => [{ from: [{ ipBlock: { cidr } }] }];

describe("NetworkViews, with many different rules of one namespace", () => {
  it("gives a namespace its new policy at once, however many pods of another one wait for theirs", async () => {
    const bench = new Bench();
    for (const namespace of ["many", "one"])
      bench.setPolicy(namespace, "all", { podSelector: {}, ingress: from("10.0.0.0/8") });
    for (let i = 0; i < 2000; i++) bench.addPod("many", `p${i}`);
    const now = bench.addPod("one", "p");
    await bench.quiet();
    for (const namespace of ["many", "one"])
      bench.setPolicy(namespace, "all", { podSelector: {}, ingress: from("11.0.0.0/8") });
    await bench.clock.advance(1000);
    await bench.turns(2);
    assert.deepEqual(now()?.ingress, [{ groups: [], blocks: [{ cidr: "11.0.0.0/8" }] }]);
    bench.stop.abort();
  });

  it("gives every other turn to cells that wait for a new policy, however many connect meanwhile", async () => {
    const bench = new Bench();
    bench.setPolicy("one", "all", { podSelector: {}, ingress: from("10.0.0.0/8") });
    for (let i = 0; i < 500; i++) bench.addPod("one", "old");
    await bench.quiet();
    bench.setPolicy("one", "all", { podSelector: {}, ingress: from("11.0.0.0/8") });
    bench.served.length = 0;
    for (let i = 0; i < 500; i++) bench.addPod("one", "new");
    await bench.quiet();
    assert.equal(bench.served.length, 1000);
    const old = bench.served.slice(100, 300).filter((name) => name === "old");
    assert.ok(old.length >= 90 && old.length <= 110, String(old.length));
    bench.stop.abort();
  });

  it("fills groups for as long as it serves cells, if one of them takes longer than a block", async () => {
    const bench = new Bench();
    const { clock } = bench;
    const slow = (cidr: string) => ({
      podSelector: {},
      get ingress() {
        clock.busyMs += 30;
        return from(cidr);
      },
    });
    const ofLabels = (label: string) => ({
      podSelector: {},
      ingress: Array.from({ length: 200 }, (_, i) => ({
        from: [{ podSelector: { matchLabels: { [label]: `v${i}` } } }],
      })),
    });
    bench.setPolicy("slow", "all", slow("10.0.0.0/8"));
    bench.setPolicy("one", "all", ofLabels("before"));
    bench.addPod("slow", "slow");
    const now = bench.addPod("one", "p");
    await bench.quiet();
    const before = now()?.ingress;
    bench.served.length = 0;
    bench.setPolicy("slow", "all", slow("11.0.0.0/8"));
    bench.setPolicy("one", "all", ofLabels("after"));
    const advanced = bench.clock.advance(100);
    for (let i = 0; i < 40; i++) {
      bench.setPolicy("slow", "all", slow(`10.${i}.0.0/16`));
      await bench.turns(1);
    }
    assert.notDeepEqual(now()?.ingress, before);
    assert.ok(bench.served.includes("slow"));
    await advanced;
    bench.stop.abort();
  });

  it("closes pods whose rules there is no room for, with an event, and opens them when there is", async () => {
    const bench = new Bench(1000);
    const only = (name: string) => ({ matchLabels: { pod: name } });
    const pods = new Map<string, () => PolicyView | undefined>();
    for (let i = 0; i < 20; i++) {
      const name = `p${i}`;
      bench.setPolicy("many", name, { podSelector: only(name), ingress: from(`10.0.0.${i}/32`) });
      pods.set(name, bench.addPod("many", name));
    }
    bench.setPolicy("other", "all", { podSelector: {}, ingress: from("10.0.0.0/8") });
    const other = bench.addPod("other", "p");
    await bench.quiet();
    const open = (): readonly string[] =>
      [...pods].flatMap(([name, now]) => (now()?.ingress?.length === 1 ? [name] : []));
    const closed = (): readonly string[] =>
      [...pods].flatMap(([name, now]) => (now()?.ingress?.length === 0 ? [name] : []));
    const count = open().length;
    assert.ok(count >= 5 && count <= 15, String(count));
    assert.equal(closed().length, 20 - count);
    for (const now of pods.values()) assert.equal(now()?.egress, undefined);
    assert.deepEqual(bench.events.length, 1);
    assert.match(bench.events.join(), /^NetworkTooLarge NetworkPolicy p/);
    assert.equal(other()?.ingress?.length, 1);
    // Two that are open have no policy any longer.
    for (const name of open().slice(0, 2))
      bench.setPolicy("many", name, { podSelector: only(name) }, true);
    await bench.quiet();
    assert.equal(open().length, count);
    assert.equal(closed().length, 20 - count - 2);
    bench.stop.abort();
  });

  it("closes no pod whose rules have room because of the rules that it had before", async () => {
    const deployments = Array.from({ length: 12 }, (_, i) => `d${i}`);
    const blocks = Array.from({ length: 101 }, (_, i) => ({ ipBlock: { cidr: `10.0.${i}.0/24` } }));
    const begin = async (room: number) => {
      const bench = new Bench(room);
      const setCommon = (count: number): void =>
        bench.setPolicy("shop", "all", {
          podSelector: {},
          ingress: [{ from: blocks.slice(0, count) }],
        });
      for (const [i, pod] of deployments.entries())
        bench.setPolicy("shop", pod, {
          podSelector: { matchLabels: { pod } },
          ingress: from(`192.0.2.${i}/32`),
        });
      setCommon(100);
      const pods = ["x", "y", "z"].flatMap((replica) =>
        deployments.map((pod) => bench.addPod("shop", `${pod}-${replica}`, pod)),
      );
      await bench.quiet();
      const open = () => pods.filter((now) => now()?.ingress?.length === 2).length;
      return { bench, setCommon, pods, open };
    };
    const isEnough = async (room: number): Promise<boolean> => {
      const { bench, open, pods } = await begin(room);
      bench.stop.abort();
      return open() === pods.length;
    };
    let least = 45_000;
    while (await isEnough(least - 1000)) least -= 1000;
    assert.ok(least < 40_000);
    for (const room of [45_000, least]) {
      const { bench, setCommon, pods, open } = await begin(room);
      assert.equal(open(), pods.length);
      bench.served.length = 0;
      setCommon(101);
      await bench.quiet();
      assert.equal(bench.served.length, pods.length, "each has the new rules at once");
      assert.equal(open(), pods.length);
      assert.deepEqual(bench.events, []);
      bench.stop.abort();
    }
  });

  it("makes no more rules than there is room for when pods leave rules that others keep", async () => {
    const room = 20_000;
    const bench = new Bench(room);
    const blocks = (of: number) =>
      Array.from({ length: 100 }, (_, i) => ({ ipBlock: { cidr: `10.${of}.${i}.0/24` } }));
    const names = Array.from({ length: 30 }, (_, i) => `p${i}`);
    const setOwn = (pod: string, i: number): void =>
      bench.setPolicy("shop", pod, {
        podSelector: { matchLabels: { pod } },
        ingress: [{ from: blocks(i + 1) }],
      });
    setOwn("same", names.length);
    for (const [i, name] of names.entries()) setOwn(name, i);
    bench.addPod("shop", "rest", "same");
    const pods = names.map((name) => bench.addPod("shop", name, "same"));
    await bench.quiet();
    assert.ok(pods.every((now) => now()?.ingress?.length === 1));
    for (const name of names) bench.setPod("shop", name, name);
    await bench.quiet();
    const sizes = pods.map((now) => JSON.stringify(now()?.ingress).length);
    const total = sizes.reduce((sum, size) => sum + size, 0);
    assert.ok(
      sizes.some((size) => size === 2),
      "some are closed",
    );
    assert.ok(total > room / 2 && total < room + 2 * Math.max(...sizes), String(total));
    bench.stop.abort();
  });
});
