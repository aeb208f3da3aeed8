import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { bucketCount, bucketOf, ChangeReader, type ServiceView } from "@kip/network-view";
import { ManualClock, SlowClock } from "@kip/testing";
import type { CellPolicy } from "./cell-policy.ts";
import { CellView, type SharedLines } from "./cell-view.ts";
import { NetworkViews } from "./network-views.ts";
import { ServiceLines } from "./service-lines.ts";

/** More than are remembered for a cell one by one. */
const late = 2500;

const keys = Array.from({ length: late }, (_, i) => `n${i % 5}/s${i}`);

function viewOf(round: number): ServiceView {
  const endpoints = Array.from({ length: 10 }, (_, i) => `10.1.${round}.${i}:80`);
  return {
    clusterIps: ["10.96.0.1"],
    ports: [{ name: "", protocol: "TCP", port: 80, endpoints }],
  };
}

/** The table of Services that cells share. */
class Table implements SharedLines {
  version = 0;
  readonly services = new ServiceLines();

  group(): undefined {
    return undefined;
  }

  change(of: readonly string[], round: number): void {
    this.version++;
    for (const key of of) this.services.set(key, viewOf(round), this.version);
  }

  remove(of: readonly string[]): void {
    this.version++;
    for (const key of of) this.services.set(key, undefined, this.version);
  }

  /** A cell that has all so far. */
  cell(): CellView {
    const policy = {
      groups: new Set<string>(),
      line: Buffer.from("x"),
      since: () => [],
      linesReplacing: () => [],
    } satisfies Pick<CellPolicy, "groups" | "line" | "since" | "linesReplacing">;
    const options = { sums: [...this.services.sums], first: [] };
    const cell = new CellView(this, { ...options, policy: policy as unknown as CellPolicy });
    cell.next();
    return cell;
  }
}

/** Processor time of the best of three, milliseconds: on a machine with other work, caches are not always warm. */
function msOf(run: () => void): number {
  const once = (): number => {
    const started = process.threadCpuUsage();
    run();
    const { user, system } = process.threadCpuUsage(started);
    return (user + system) / 1000;
  };
  return Math.min(once(), once(), once());
}

describe("CellView with thousands of Services that a change has no room for", () => {
  it("computes their buckets once for all cells, of those that are gone, too", () => {
    const table = new Table();
    table.change(keys, 0);
    const cells = Array.from({ length: 600 }, () => table.cell());
    const onceMs = msOf(() => keys.map(bucketOf));
    const nextOfAll = (): number =>
      msOf(() => {
        for (const each of cells.splice(0, 200)) each.next();
      });
    table.change(keys, 1);
    assert.ok(nextOfAll() < 20 * onceMs);
    cells.push(...Array.from({ length: 600 }, () => table.cell()));
    table.remove(keys.slice(0, -1));
    assert.ok(nextOfAll() < 20 * onceMs);
  });

  it("sends their buckets whole, whatever earlier changes had no room for, and those that are gone are gone", () => {
    const table = new Table();
    table.change(keys, 0);
    const cell = table.cell();
    const has = new Map(keys.map((key) => [key, 0]));
    const reader = new ChangeReader();
    const take = (): boolean => {
      const parts = cell.next();
      for (const { services, buckets } of reader.push(Buffer.concat(parts ?? []))) {
        for (const key of has.keys())
          if (buckets.includes(bucketOf(key)) && !services.has(key)) has.delete(key);
        for (const [key, view] of services)
          if (view) has.set(key, Number(view.ports[0]?.endpoints[0]?.split(".")[2]));
          else has.delete(key);
      }
      return parts !== undefined;
    };
    table.change(keys.slice(0, 800), 1);
    take();
    table.remove(keys.slice(100, 300));
    take();
    table.change(keys.slice(700), 2);
    take();
    table.remove(keys.slice(2000));
    for (let i = 0; i < 2 * bucketCount && take(); i++);
    const wanted = keys.flatMap((key, i) =>
      (i >= 100 && i < 300) || i >= 2000 ? [] : [[key, i >= 700 ? 2 : 1] as const],
    );
    assert.deepEqual(has, new Map(wanted));
  });
});

describe("NetworkViews with many cells", () => {
  /** How many cells get a change in each turn of the event loop. */
  async function takenInTurns(clock: ManualClock): Promise<readonly number[]> {
    const stop = new AbortController();
    const views = new NetworkViews({ node: { name: "kip" }, clock, signal: stop.signal });
    const sums = Array<number>(bucketCount).fill(0);
    const cells = Array.from({ length: 100 }, () =>
      views.subscribe({ podUid: "", namespace: "web", sums }),
    );
    for (const each of cells) await each.next(stop.signal);
    let taken = 0;
    for (const each of cells) void each.next(stop.signal).then(() => taken++);
    const metadata = { namespace: "web", name: "s", uid: "s", resourceVersion: "1" };
    const spec = { clusterIP: "10.96.0.1", ports: [{ port: 80 }] };
    views.setService({ metadata, spec });
    void clock.advance(1000);
    const counts: number[] = [];
    for (let turns = 0; turns < 1000 && taken < cells.length; turns++) {
      const before = taken;
      await new Promise((resolve) => setImmediate(resolve));
      counts.push(taken - before);
    }
    assert.equal(taken, cells.length);
    stop.abort();
    return counts;
  }

  it("lets other work pass after as many cells as there is time for in a block", async () => {
    assert.equal(Math.max(...(await takenInTurns(new ManualClock()))), 64);
    const slow = new SlowClock();
    slow.lookMs = 4;
    assert.ok(Math.max(...(await takenInTurns(slow))) <= 8);
  });
});
