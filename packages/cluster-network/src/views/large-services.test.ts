import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { EndpointSlice, StoredService } from "@kip/k8s-types/network";
import { bucketCount, bucketOf, ChangeReader, unknownSums } from "@kip/network-view";
import { ManualClock } from "@kip/testing";
import { maxServicesCost } from "../services/service-cost.ts";
import { NetworkViews, type ViewSubscription } from "./network-views.ts";

const lastBucket = bucketCount - 1;
/** Services that are in the bucket that cells get first, as few of one namespace as there is room for. */
const keys = Array.from({ length: 4000 }, (_, i) => `tenant-${i % 5}/s${i}`)
  .filter((key) => bucketOf(key) === lastBucket)
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
function slice(name: string, namespace: string, endpoints: number): EndpointSlice {
  return {
    metadata: { ...meta(name, namespace), labels: { "kubernetes.io/service-name": name } },
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

  set(key: string, endpoints = 360): void {
    const [namespace = "", name = ""] = key.split("/");
    this.views.setService(service(name, namespace, 100));
    this.views.setSlice(slice(name, namespace, endpoints));
  }

  async flush(): Promise<void> {
    await this.clock.advance(100);
  }
}

describe("NetworkViews with Services of the largest size", () => {
  it("sends a bucket that is larger than a change in parts, after those that are not", async () => {
    const bench = new Bench();
    for (const key of keys) bench.set(key);
    bench.views.setService(service("web", "victim", 1));
    await bench.flush();
    const subscription = bench.subscribe();
    const cell = new TestCell();
    const hasWeb = (): boolean => cell.table.has("victim/web");
    for (let i = 0; i < 3 && !hasWeb(); i++) await cell.take(subscription, bench.signal);
    assert.ok(hasWeb());
    while (cell.table.size < keys.length + 1) await cell.take(subscription, bench.signal);
    assert.equal(
      cell.counts.reduce((sum, count) => sum + count, 0),
      keys.length + 1,
    );
  });

  it("gives cells that take a bucket in parts the same bytes", async () => {
    const bench = new Bench();
    for (const key of keys) bench.set(key);
    await bench.flush();
    const cells = [bench.subscribe(), bench.subscribe()];
    for (let change = 0; change < 4; change++) {
      const taken = await Promise.all(cells.map(async (cell) => await cell.next(bench.signal)));
      const [ofOne, ofOther] = taken.map((pieces) => pieces.filter(({ length }) => length > 4096));
      assert.notEqual(ofOne?.length, change > 0 ? 0 : -1);
      ofOne?.forEach((piece, index) => assert.equal(piece.buffer, ofOther?.[index]?.buffer));
    }
  });

  it("keeps and sends no more of one namespace than it may have, and other namespaces as before", async () => {
    const bench = new Bench();
    for (const i of numbered(50)) bench.set(`tenant/s${i}`);
    bench.views.setService(service("web", "victim", 1));
    const cell = new TestCell();
    const subscription = bench.subscribe();
    while (!cell.table.has("victim/web")) await cell.take(subscription, bench.signal);
    await bench.flush();
    const end = new AbortController();
    for (let i = 0; i < 20; i++) {
      const taken = cell.take(subscription, end.signal).catch(() => {});
      await Promise.race([taken, new Promise((resolve) => setImmediate(resolve))]);
    }
    end.abort();
    const most = maxServicesCost.bytes;
    const bytes = [...cell.table.values()].reduce((sum, line) => sum + line.length, 0);
    assert.ok(bytes > most / 2 && bytes < most, String(bytes));
  });

  it("sends small changes before those that one change has no room for", async () => {
    const bench = new Bench();
    const subscription = bench.subscribe(bench.views.services.sums);
    const cell = new TestCell();
    await cell.take(subscription, bench.signal);
    for (const key of keys) bench.set(key);
    bench.views.setService(service("web", "victim", 1));
    await bench.clock.advance(0);
    await cell.take(subscription, bench.signal);
    assert.ok(cell.table.has("victim/web"));
    while (bench.views.index.isChanged) await bench.flush();
    while (cell.table.size < keys.length + 1) await cell.take(subscription, bench.signal);
  });

  it("makes a version of few of them at a time, and lets other work pass in between, also before there is a cell", async () => {
    const bench = new Bench();
    for (const key of keys) bench.set(key);
    const counts: number[] = [];
    const settled = bench.views.settled(bench.signal).then(() => "settled");
    let turn: unknown;
    do {
      counts.push(bench.views.index.changedCount);
      turn = await Promise.race([settled, new Promise((resolve) => setImmediate(resolve))]);
    } while (turn !== "settled");
    assert.ok(Math.max(...counts.map((count, i) => (counts[i - 1] ?? count) - count)) <= 4);
    assert.equal(bench.views.index.isChanged, false);
    const cell = new TestCell();
    const subscription = bench.subscribe();
    while (cell.table.size < keys.length) await cell.take(subscription, bench.signal);
  });

  it("leads a cell to the table as it is, whatever changes while parts of it come", async () => {
    const bench = new Bench();
    for (const key of keys) bench.set(key);
    await bench.flush();
    const subscription = bench.subscribe();
    const cell = new TestCell();
    for (const [index, key] of keys.entries()) {
      await cell.take(subscription, bench.signal);
      const other = keys[(index * 7) % keys.length] ?? "";
      const [namespace = "", name = ""] = other.split("/");
      if (index % 3 === 0) bench.views.setService(service(name, namespace, 1), true);
      else bench.set(other, 300 + index);
      if (index === 10) for (const each of keys) bench.set(each, 310);
      bench.set(key, 1);
      await bench.flush();
    }
    const wanted = new Map(
      keys.flatMap((key) => {
        const view = bench.views.index.view(key);
        return view ? [[key, JSON.stringify(view)] as const] : [];
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
