import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { EndpointSlice, StoredService } from "@kip/k8s-types/network";
import { bucketCount, bucketOf, ChangeReader, unknownSums } from "@kip/network-view";
import { ManualClock } from "@kip/testing";
import { NetworkViews, type ViewSubscription } from "./network-views.ts";

const lastBucket = bucketCount - 1;
/** Names of Services that are in the bucket that cells get first. */
const names = Array.from({ length: 4000 }, (_, i) => `s${i}`)
  .filter((name) => bucketOf(`tenant/${name}`) === lastBucket)
  .slice(0, 20);

const numbered = (count: number): readonly number[] => Array.from({ length: count }, (_, i) => i);

function meta(name: string, namespace: string) {
  return { namespace, name, uid: name, resourceVersion: "1" };
}

function service(name: string, namespace: string, ports: number): StoredService {
  const ofPort = (i: number) => ({ name: `p${i}`, port: i + 1 });
  return {
    metadata: meta(name, namespace),
    spec: { clusterIP: "10.96.0.1", ports: numbered(ports).map(ofPort) },
  };
}

/** With 100 ports and 360 endpoints, the line of the Service has almost the largest size that there is. */
function slice(name: string, endpoints: number): EndpointSlice {
  return {
    metadata: { ...meta(name, "tenant"), labels: { "kubernetes.io/service-name": name } },
    addressType: "IPv6",
    ports: numbered(100).map((i) => ({ name: `p${i}`, port: 60_000 + i, protocol: "TCP" })),
    endpoints: numbered(endpoints).map((i) => ({
      addresses: [`fd00:1111:2222:3333:4444:5555:6666:${(0x1000 + i).toString(16)}`],
    })),
  };
}

/** A cell: the table that it has, and how many Services there were in each change. */
class TestCell {
  readonly table = new Map<string, string>();
  readonly counts: number[] = [];
  readonly #reader = new ChangeReader();

  async take(subscription: ViewSubscription, signal: AbortSignal): Promise<void> {
    const lines = Buffer.concat(await subscription.next(signal));
    for (const { services, buckets, kept } of this.#reader.push(lines)) {
      for (const key of kept ?? []) assert.ok(this.table.has(key), key);
      for (const key of this.table.keys())
        if (buckets.includes(bucketOf(key)) && !services.has(key) && !kept?.has(key))
          this.table.delete(key);
      for (const [key, view] of services) {
        if (view) this.table.set(key, JSON.stringify(view));
        else this.table.delete(key);
      }
      this.counts.push(services.size);
    }
  }
}

class Bench {
  readonly clock = new ManualClock();
  readonly signal = new AbortController().signal;
  readonly views = new NetworkViews({
    node: { name: "kip" },
    clock: this.clock,
    signal: this.signal,
  });

  subscribe(sums = unknownSums()): ViewSubscription {
    return this.views.subscribe({ podUid: "a", namespace: "default", sums });
  }

  set(name: string, endpoints = 360): void {
    this.views.setService(service(name, "tenant", 100));
    this.views.setSlice(slice(name, endpoints));
  }

  async flush(): Promise<void> {
    await this.clock.advance(100);
  }
}

describe("NetworkViews with Services of the largest size", () => {
  it("sends a bucket that is larger than a change in parts, after those that are not", async () => {
    const bench = new Bench();
    for (const name of names) bench.set(name);
    bench.views.setService(service("web", "victim", 1));
    await bench.flush();
    const subscription = bench.subscribe();
    const cell = new TestCell();
    const hasWeb = (): boolean => cell.table.has("victim/web");
    for (let i = 0; i < 3 && !hasWeb(); i++) await cell.take(subscription, bench.signal);
    assert.ok(hasWeb());
    while (cell.table.size < names.length + 1) await cell.take(subscription, bench.signal);
    assert.equal(
      cell.counts.reduce((sum, count) => sum + count, 0),
      names.length + 1,
    );
  });

  it("gives cells that take a bucket in parts the same bytes", async () => {
    const bench = new Bench();
    for (const name of names) bench.set(name);
    await bench.flush();
    const cells = [bench.subscribe(), bench.subscribe()];
    for (let change = 0; change < 4; change++) {
      const taken = await Promise.all(cells.map(async (cell) => await cell.next(bench.signal)));
      const [ofOne, ofOther] = taken.map((pieces) => pieces.filter(({ length }) => length > 4096));
      assert.notEqual(ofOne?.length, change > 0 ? 0 : -1);
      ofOne?.forEach((piece, index) => assert.equal(piece.buffer, ofOther?.[index]?.buffer));
    }
  });

  it("sends small changes before those that one change has no room for", async () => {
    const bench = new Bench();
    const subscription = bench.subscribe(bench.views.services.sums);
    const cell = new TestCell();
    await cell.take(subscription, bench.signal);
    for (const name of names) bench.set(name);
    bench.views.setService(service("web", "victim", 1));
    await bench.flush();
    await cell.take(subscription, bench.signal);
    assert.ok(cell.table.has("victim/web"));
    while (cell.table.size < names.length + 1) await cell.take(subscription, bench.signal);
  });

  it("leads a cell to the table as it is, whatever changes while parts of it come", async () => {
    const bench = new Bench();
    for (const name of names) bench.set(name);
    await bench.flush();
    const subscription = bench.subscribe();
    const cell = new TestCell();
    for (const [index, name] of names.entries()) {
      await cell.take(subscription, bench.signal);
      const other = names[(index * 7) % names.length] ?? "";
      if (index % 3 === 0) bench.views.setService(service(other, "tenant", 1), true);
      else bench.set(other, 300 + index);
      if (index === 10) for (const each of names) bench.set(each, 310);
      bench.set(name, 1);
      await bench.flush();
    }
    const wanted = new Map(
      names.flatMap((name) => {
        const view = bench.views.index.view(`tenant/${name}`);
        return view ? [[`tenant/${name}`, JSON.stringify(view)] as const] : [];
      }),
    );
    const sorted = (table: ReadonlyMap<string, string>) =>
      [...table.entries()].map(([key, text]) => `${key} ${text.length}`).sort();
    const end = new AbortController();
    for (let i = 0; i < 20; i++) {
      const taken = cell.take(subscription, end.signal).catch(() => {});
      await Promise.race([taken, new Promise((resolve) => setImmediate(resolve))]);
    }
    end.abort();
    assert.deepEqual(sorted(cell.table), sorted(wanted));
  });
});
