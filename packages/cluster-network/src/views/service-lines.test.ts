import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { bucketOf, type ServiceView } from "@kip/network-view";
import { ServiceLines } from "./service-lines.ts";

const view: ServiceView = {
  clusterIps: ["10.96.0.1"],
  ports: [{ name: "", protocol: "TCP", port: 80, endpoints: ["10.1.0.1:80"] }],
};

/** Services of one bucket. */
const keys = Array.from({ length: 4000 }, (_, i) => `web/s${i}`)
  .filter((key) => bucketOf(key) === 0)
  .slice(0, 40);

describe("ServiceLines", () => {
  it("keeps parts of a bucket with twice its bytes for other cells, the newest ones, whatever cells have", () => {
    const services = new ServiceLines();
    for (const key of keys) services.set(key, view, 1);
    // One cell has a Service of the bucket, another one has one that is gone.
    const names = [...keys.slice(0, 8), ...Array.from({ length: 8 }, (_, i) => `web/gone${i}`)];
    const cells = names.map((key) => new Set([key]));
    const parts = cells.map((sent) => services.bucket(0, sent));
    const bytes = services.bucket(0, cells[15]).lines.length;
    assert.ok(parts.every(({ lines }) => lines.length > 0.9 * bytes));
    const isKept = (cell: number): boolean => services.bucket(0, cells[cell]) === parts[cell];
    // To ask for one that is not kept makes it the newest one.
    assert.deepEqual([15, 13, 12, 0].map(isKept), [true, false, false, false]);
  });

  it("keeps the newest 32 parts of late Services for other cells, though cells wait for earlier ones", () => {
    const services = new ServiceLines();
    for (const key of keys) services.set(key, view, 1);
    const lists = keys.slice(0, 34).map((key) => [key]);
    const parts = lists.map((list) => services.deferred(list));
    const isKept = (place: number): boolean =>
      services.deferred(lists[place] ?? []) === parts[place];
    assert.deepEqual([33, 2, 0].map(isKept), [true, true, false]);
  });
});
