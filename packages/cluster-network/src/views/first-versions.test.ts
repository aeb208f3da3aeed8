import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { EndpointSlice, StoredService } from "@kip/k8s-types/network";
import { bucketCount, ChangeReader, unknownSums } from "@kip/network-view";
import { ManualClock } from "@kip/testing";
import { NetworkViews } from "./network-views.ts";

const numbered = (count: number): readonly number[] => Array.from({ length: count }, (_, i) => i);

/** Services that count as more than one version has of all. */
const large = 12;
const small = 3000;

/** A turn of the event loop, in which other work passes. */
const turn = async (): Promise<void> => await new Promise((resolve) => setImmediate(resolve));

function meta(namespace: string, name: string) {
  return { namespace, name, uid: name, resourceVersion: "1" };
}

function service(
  namespace: string,
  name: string,
  more: { ports?: number; day?: number; externalIPs?: string[] } = {},
): StoredService {
  const { ports = 1, day = 1, externalIPs = [] } = more;
  const creationTimestamp = `2026-01-0${day}T00:00:00Z`;
  const spec = {
    clusterIP: "10.96.0.1",
    externalIPs,
    ports: numbered(ports).map((i) => ({ name: `p${i}`, port: i + 1 })),
  };
  return { metadata: { ...meta(namespace, name), creationTimestamp }, spec };
}

function slice(namespace: string, name: string, ports = 1, endpoints = 1): EndpointSlice {
  const labels = { "kubernetes.io/service-name": name };
  return {
    metadata: { ...meta(namespace, name), labels },
    addressType: "IPv4",
    ports: numbered(ports).map((i) => ({ name: `p${i}`, port: 8080, protocol: "TCP" })),
    endpoints: numbered(endpoints).map((i) => ({ addresses: [`10.1.${i >> 8}.${i & 255}`] })),
  };
}

class Bench {
  readonly stop = new AbortController();
  readonly views = new NetworkViews({
    node: { name: "kip" },
    clock: new ManualClock(),
    signal: this.stop.signal,
  });
  #changes = 0;

  /** Small Services of many namespaces and large ones of one. */
  make(): void {
    for (const i of numbered(large)) {
      this.views.setService(service("tenant", `s${i}`, { ports: 4 }));
      this.views.setSlice(slice("tenant", `s${i}`, 4, 5000));
    }
    for (const i of numbered(small)) this.views.setService(service(`n${i % 20}`, `s${i}`));
  }

  /** Changes one of the large Services, each in turn. */
  change(): void {
    this.views.setService(service("tenant", `s${this.#changes++ % large}`, { ports: 4 }));
  }

  smallOnes(): number {
    const count = (i: number) => String(this.views.services.namespace(`n${i}`)).split("\n").length;
    return numbered(20).reduce((sum, i) => sum + count(i) - 1, 0);
  }

  /** How many turns something takes, while a tenant changes several Services in each. */
  async turnsOf(something: Promise<unknown>, most: number): Promise<number> {
    const isOver = something.then(() => true);
    for (let turns = 0; turns < most; turns++) {
      for (const _ of numbered(4)) this.change();
      if (await Promise.race([isOver, turn()])) return turns;
    }
    return most;
  }
}

describe("NetworkViews before there is a cell", () => {
  it("waits for what had changed by then, while a namespace changes more than there is time for", async (t) => {
    const bench = new Bench();
    t.after(() => bench.stop.abort());
    bench.make();
    const settled = bench.views.settled(bench.stop.signal);
    assert.ok((await bench.turnsOf(settled, 60)) < 60);
    assert.equal(bench.smallOnes(), small);
    assert.equal(bench.views.index.isChanged, true);
  });

  it("makes the same versions for all who wait, and lets each go when its changes are computed", async (t) => {
    const bench = new Bench();
    t.after(() => bench.stop.abort());
    bench.make();
    const first = numbered(500).map(() => bench.views.settled(bench.stop.signal));
    const counts: number[] = [];
    const count = (): unknown => counts.push(bench.views.index.changedCount);
    count();
    const over = Promise.all(first).then(() => true);
    while (!(await Promise.race([over, turn()]))) count();
    count();
    // One version has 500 small ones at most.
    const taken = counts.map((each, i) => (counts[i - 1] ?? each) - each);
    assert.ok(Math.max(...taken) <= 500, String(Math.max(...taken)));
    const left = new AbortController();
    bench.make();
    const gone = bench.views.settled(left.signal);
    const later = bench.views.settled(bench.stop.signal);
    left.abort(new Error("left"));
    await assert.rejects(gone, /left/);
    await later;
    assert.equal(bench.views.index.isChanged, false);
  });

  it("waits for those that get room and addresses by what had changed, too", async (t) => {
    const bench = new Bench();
    t.after(() => bench.stop.abort());
    const { views } = bench;
    const externalIPs = ["192.0.2.1"];
    // The youngest of those that have room at first has none when older ones are known, and its address is another one's then.
    views.setService(service("over", "young", { day: 9, ports: 8, externalIPs }));
    views.setSlice(slice("over", "young", 8, 4500));
    views.setService(service("other", "younger", { day: 9, externalIPs }));
    for (const i of numbered(7)) {
      views.setService(service("over", `s${i}`, { day: 1 + i, ports: 8 }));
      views.setSlice(slice("over", `s${i}`, 8, 4500));
    }
    await bench.turnsOf(views.settled(bench.stop.signal), 200);
    assert.ok(views.index.budget.isRefused("over/young"));
    const line = String(views.services.namespace("other"));
    assert.match(line, /192\.0\.2\.1/);
  });

  it("computes no more than one version when the first cell comes, and gives it its view when all of before is computed", async (t) => {
    const bench = new Bench();
    t.after(() => bench.stop.abort());
    bench.make();
    const before = bench.views.index.changedCount;
    const cells = numbered(3).map(() =>
      bench.views.subscribe({
        podUid: "",
        namespace: "x",
        sums: Array<number>(bucketCount).fill(0),
      }),
    );
    assert.ok(before - bench.views.index.changedCount <= 500);
    const next = Promise.all(cells.map(async (each) => await each.next(bench.stop.signal)));
    assert.ok((await bench.turnsOf(next, 60)) < 60);
    assert.equal(bench.smallOnes(), small);
    for (const pieces of await next)
      for (const { buckets, services } of new ChangeReader().push(Buffer.concat(pieces)))
        assert.ok(buckets.length === 0 || services.size > 0);
  });

  it("gives nothing to a cell that is gone before its view could be made", async (t) => {
    const bench = new Bench();
    t.after(() => bench.stop.abort());
    bench.make();
    const cell = bench.views.subscribe({ podUid: "", namespace: "x", sums: unknownSums() });
    cell[Symbol.dispose]();
    await bench.views.settled(bench.stop.signal);
    // It would be the first cell, and others would wait no longer.
    bench.make();
    await bench.views.settled(bench.stop.signal);
    assert.equal(bench.views.index.isChanged, false);
  });
});
