import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { EndpointSlice, StoredService } from "@kip/k8s-types/network";
import { bucketCount, bucketOf, ChangeReader, type ViewChange } from "@kip/network-view";
import { ManualClock } from "@kip/testing";
import { NetworkViews, type ViewSubscription } from "./network-views.ts";

/** A cell takes so much as one transaction or a few, and no change of it takes much longer. */
const maxBytes = 256 * 1024;

function meta(key: string) {
  const [namespace = "", name = ""] = key.split("/");
  return { namespace, name, uid: name, resourceVersion: "1" };
}

function service(key: string, address: string): StoredService {
  const spec = { clusterIP: address, clusterIPs: [address], ports: [{ port: 80 }] };
  return { metadata: meta(key), spec };
}

function slice(key: string, round: number): EndpointSlice {
  const metadata = meta(key);
  const labels = { "kubernetes.io/service-name": metadata.name };
  return {
    metadata: { ...metadata, name: `${metadata.name}-1`, labels },
    addressType: "IPv4",
    ports: [{ name: "", port: 8080, protocol: "TCP" }],
    endpoints: Array.from({ length: 10 }, (_, i) => ({ addresses: [`10.1.${round}.${i}`] })),
  };
}

class Bench {
  readonly clock = new ManualClock();
  readonly stop = new AbortController();
  readonly views = new NetworkViews({
    node: { name: "kip" },
    clock: this.clock,
    signal: this.stop.signal,
  });

  /** Makes Services of a namespace. */
  make(namespace: string, count: number): readonly string[] {
    return Array.from({ length: count }, (_, i) => {
      const key = `${namespace}/s${i}`;
      this.views.setService(service(key, `10.96.${i >> 8}.${i & 255}`));
      this.views.setSlice(slice(key, 0));
      return key;
    });
  }

  /** As many versions as it takes, without a cell that asks. */
  async change(keys: readonly string[], round: number): Promise<void> {
    for (const key of keys) this.views.setSlice(slice(key, round));
    while (this.views.index.isChanged) await this.clock.advance(100);
  }

  async subscribe(podUid: string): Promise<ViewSubscription> {
    await this.views.settled(this.stop.signal);
    const sums = Array<number>(bucketCount).fill(0);
    return this.views.subscribe({ podUid, namespace: "web", sums });
  }
}

/** What a cell has, and what each change had. */
class Cell {
  readonly endpoints = new Map<string, string>();
  readonly #subscription: ViewSubscription;
  readonly #reader = new ChangeReader();

  constructor(subscription: ViewSubscription) {
    this.#subscription = subscription;
  }

  /** Undefined once the cell lacks nothing. */
  async next(): Promise<{ readonly bytes: number; readonly change: ViewChange } | undefined> {
    const stop = new AbortController();
    const next = this.#subscription.next(stop.signal).catch(() => undefined);
    const nothing = new Promise<undefined>((resolve) => setImmediate(resolve, undefined));
    const pieces = await Promise.race([next, nothing]);
    stop.abort();
    if (!pieces) return undefined;
    const lines = Buffer.concat(pieces);
    const [change] = [...this.#reader.push(lines)];
    assert.ok(change);
    const { services, buckets, kept } = change;
    for (const key of this.endpoints.keys())
      if (buckets.includes(bucketOf(key)) && !services.has(key) && kept?.has(key) !== true)
        this.endpoints.delete(key);
    for (const [key, view] of services)
      if (view) this.endpoints.set(key, view.ports[0]?.endpoints[0] ?? "none");
      else this.endpoints.delete(key);
    return { bytes: lines.length, change };
  }

  /** Takes all that it lacks. @returns how many lines of Services each change had */
  async all(): Promise<readonly number[]> {
    const counts: number[] = [];
    for (let next = await this.next(); next; next = await this.next()) {
      assert.ok(next.bytes < maxBytes, String(next.bytes));
      counts.push(next.change.services.size);
    }
    return counts;
  }
}

const sum = (counts: readonly number[]): number => counts.reduce((a, b) => a + b, 0);

describe("NetworkViews, for a cell that takes changes slowly", () => {
  it("sends changes of a namespace that changes few Services before those of one that changes thousands", async () => {
    const bench = new Bench();
    const flood = bench.make("flood", 3000);
    const [web = ""] = bench.make("web", 1);
    const cell = new Cell(await bench.subscribe("a"));
    await cell.all();
    await bench.change(flood, 1);
    await bench.change([web], 1);
    const first = await cell.next();
    assert.ok(first && first.bytes < maxBytes);
    assert.equal(cell.endpoints.get(web), "10.1.1.0:8080");
    // The same while there is still much to take of the other namespace, and more comes.
    await bench.change(flood.slice(0, 200), 2);
    await bench.change([web], 2);
    const second = await cell.next();
    assert.ok(second && second.bytes < maxBytes);
    assert.equal(cell.endpoints.get(web), "10.1.2.0:8080");
    await cell.all();
    for (const [i, key] of flood.entries())
      assert.equal(cell.endpoints.get(key), `10.1.${i < 200 ? 2 : 1}.0:8080`);
  });

  it("sends each of some hundred Services once, in parts that are the same bytes for all cells", async () => {
    const bench = new Bench();
    const keys = bench.make("flood", 3000).slice(0, 600);
    const cells = [await bench.subscribe("a"), await bench.subscribe("b")] as const;
    const [one, other] = cells.map((each) => new Cell(each));
    for (const cell of [one, other]) await cell?.all();
    await bench.change(keys, 1);
    const taken = await Promise.all(cells.map(async (each) => await each.next(bench.stop.signal)));
    const [ofOne, ofOther] = taken.map((pieces) => pieces.filter(({ length }) => length > 4096));
    assert.equal(ofOne?.length, 1);
    assert.equal(ofOne[0]?.buffer, ofOther?.[0]?.buffer);
    const again = await Promise.all(cells.map(async (each) => await each.next(bench.stop.signal)));
    const [more, same] = again.map((pieces) => pieces.filter(({ length }) => length > 4096));
    assert.equal(more?.length, 1);
    assert.equal(more[0]?.buffer, same?.[0]?.buffer);
    assert.notEqual(more[0]?.buffer, ofOne[0]?.buffer);
    await bench.change(keys, 2);
    const counts = (await one?.all()) ?? [];
    assert.equal(sum(counts), keys.length);
    for (const key of keys) assert.equal(one?.endpoints.get(key), "10.1.2.0:8080");
  });

  it("leads to the table as it is, whatever changes and goes between two of its changes", async () => {
    const bench = new Bench();
    const keys = [...bench.make("flood", 2500), ...bench.make("web", 100)];
    const rounds = new Map(keys.map((key) => [key, 0]));
    const cell = new Cell(await bench.subscribe("a"));
    await cell.all();
    let seed = 3;
    const random = (below: number): number =>
      (seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31) % below;
    for (let round = 1; round <= 12; round++) {
      const from = random(keys.length);
      const changed = keys.slice(from, from + 1 + random(round % 3 === 0 ? 2000 : 300));
      for (const [i, key] of changed.entries()) {
        const isGone = random(3) === 0;
        bench.views.setService(service(key, `10.97.${i >> 8}.${i & 255}`), isGone);
        if (isGone) rounds.delete(key);
        else rounds.set(key, round);
      }
      await bench.change(changed, round);
      for (let i = random(4); i > 0; i--) {
        const next = await cell.next();
        assert.ok((next?.bytes ?? 0) < maxBytes);
      }
    }
    await cell.all();
    const wanted = [...rounds].map(([key, round]) => [key, `10.1.${round}.0:8080`] as const);
    assert.deepEqual(cell.endpoints, new Map(wanted));
  });
});
