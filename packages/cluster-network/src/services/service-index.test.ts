import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { EndpointSlice, StoredService } from "@kip/k8s-types/network";
import type { ChangeShare } from "./change-queue.ts";
import { ServiceIndex, type Refusal } from "./service-index.ts";
import { maxServicesCost } from "./service-cost.ts";

const numbered = (count: number): readonly number[] => Array.from({ length: count }, (_, i) => i);

function meta(name: string, namespace: string) {
  return { namespace, name, uid: name, resourceVersion: "1" };
}

/** @param day of creation, 0 to 99 */
function service(name: string, namespace: string, day = 0): StoredService {
  const ports = numbered(100).map((i) => ({ name: `p${i}`, port: i + 1 }));
  const creationTimestamp = `2026-01-01T00:00:00.${String(day).padStart(2, "0")}Z`;
  return {
    metadata: { ...meta(name, namespace), creationTimestamp },
    spec: { clusterIP: "10.96.0.1", ports },
  };
}

/** With 100 ports, 360 endpoints make a Service of the largest size. */
function slice(name: string, namespace: string, endpoints: number): EndpointSlice {
  return {
    metadata: { ...meta(name, namespace), labels: { "kubernetes.io/service-name": name } },
    addressType: "IPv4",
    ports: numbered(100).map((i) => ({ name: `p${i}`, port: 60_000 + i, protocol: "TCP" })),
    endpoints: numbered(endpoints).map((i) => ({ addresses: [`10.1.${i >> 8}.${i & 255}`] })),
  };
}

/** One more slice of a Service of the namespace `a`. */
function emptySlice(name: string, number: number): EndpointSlice {
  const of = slice(name, "a", 0);
  return { ...of, metadata: { ...of.metadata, name: `${name}-${number}` } };
}

/** How many of the largest Services one namespace may have: each takes 100 elements for its ports, too. */
const most = Math.floor(maxServicesCost.elements / 36_100);

const share: ChangeShare = { perNamespace: 100, total: 500 };

function start() {
  const refusals: Refusal[] = [];
  const index = new ServiceIndex({ name: "kip" }, { onRefused: (each) => refusals.push(each) });
  const set = (key: string, more: { endpoints?: number; day?: number } = {}): void => {
    const [namespace = "", name = ""] = key.split("/");
    index.setService(key, service(name, namespace, more.day));
    index.setSlice(slice(name, namespace, more.endpoints ?? 360));
  };
  return { index, refusals, set };
}

const given = (views: ReadonlyMap<string, unknown>): readonly string[] =>
  [...views].flatMap(([key, view]) => (view === undefined ? [] : [key]));

describe("ServiceIndex with more Services than there is room for", () => {
  it("gives only as many of the largest Services of one namespace as its limit has room for, the oldest ones", () => {
    const { index, refusals, set } = start();
    for (const i of numbered(20)) set(`tenant/s${i}`, { day: 50 - i });
    set("victim/web", { day: 99 });
    const kept = numbered(most).map((i) => `tenant/s${19 - i}`);
    assert.deepEqual(given(index.takeChanges()).toSorted(), [...kept, "victim/web"].toSorted());
    assert.deepEqual(
      refusals.map(({ namespace, count }) => ({ namespace, count })),
      [{ namespace: "tenant", count: 20 - most }],
    );
    assert.equal(index.view("tenant/s0"), undefined);
    assert.ok(index.view("tenant/s19"));
  });

  it("takes rules away from the youngest Service when an older one grows, reports it, and gives them back", () => {
    const { index, refusals, set } = start();
    for (const i of numbered(most)) set(`tenant/s${i}`, { day: i });
    set("tenant/late", { day: 99, endpoints: 1 });
    set("tenant/first", { day: 0, endpoints: 1 });
    assert.equal(index.takeChanges().size, most + 2);
    assert.deepEqual(refusals, []);
    set("tenant/first", { day: 0 });
    const changes = index.takeChanges();
    assert.deepEqual([...changes.keys()].toSorted(), ["tenant/first", `tenant/s${most - 1}`]);
    assert.deepEqual(given(changes), ["tenant/first"]);
    assert.deepEqual(refusals, [{ namespace: "tenant", count: 1, example: `tenant/s${most - 1}` }]);
    index.setService("tenant/first", undefined);
    assert.deepEqual([...index.takeChanges()], [["tenant/first", undefined]]);
    assert.equal(index.isChanged, true);
    assert.deepEqual(given(index.takeChanges()), [`tenant/s${most - 1}`]);
    assert.equal(index.isChanged, false);
  });

  it("gives external addresses of a Service without rules to another one", () => {
    const { index, set } = start();
    for (const i of numbered(most)) set(`tenant/s${i}`, { day: i });
    const large = service("large", "tenant", 50);
    index.setService("tenant/large", {
      ...large,
      spec: { ...large.spec, externalIPs: ["192.0.2.1"] },
    });
    index.setSlice(slice("large", "tenant", 200));
    const young = service("young", "other", 60);
    const spec = { clusterIP: "10.96.0.2", ports: young.spec?.ports ?? [] };
    index.setService("other/young", { ...young, spec: { ...spec, externalIPs: ["192.0.2.1"] } });
    assert.deepEqual(index.takeChanges().get("other/young")?.externalIps, ["192.0.2.1"]);
    index.setService("tenant/s0", undefined);
    index.takeChanges();
    const changes = index.takeChanges();
    assert.deepEqual(changes.get("tenant/large")?.externalIps, ["192.0.2.1"]);
    assert.equal(changes.get("other/young")?.externalIps, undefined);
  });

  it("looks at no other namespace when one changes, and gives no more than is asked for when there is room again", () => {
    const { index, set } = start();
    for (const i of numbered(400)) index.setService(`calm/s${i}`, service(`s${i}`, "calm", 1));
    for (const i of numbered(most)) set(`tenant/s${i}`, { day: i });
    for (const i of numbered(300)) set(`tenant/small${i}`, { day: 60, endpoints: 1 });
    index.takeChanges();
    const refused = index.budget.refusedCount("tenant");
    assert.ok(refused > 100, String(refused));
    index.setService("tenant/s0", undefined);
    assert.deepEqual([...index.takeChanges(share).keys()], ["tenant/s0"]);
    const sizes: number[] = [];
    while (index.isChanged) sizes.push(index.takeChanges(share).size);
    assert.equal(index.budget.refusedCount("tenant"), 0);
    assert.equal(
      sizes.reduce((sum, size) => sum + size, 0),
      refused,
    );
    assert.equal(Math.max(...sizes), 100);
  });

  it("gives one Service of the largest size at a time, and all small ones of other namespaces before the second", () => {
    const { index, set } = start();
    for (const i of numbered(3)) set(`tenant/s${i}`);
    for (const i of numbered(50)) index.setService(`calm/s${i}`, service(`s${i}`, "calm"));
    const sizes: number[] = [];
    while (index.isChanged) sizes.push(index.takeChanges(share).size);
    assert.deepEqual(sizes, [51, 1, 1]);
  });

  it("gives a few Services of the largest size at a time, however many namespaces have some", () => {
    const { index, set } = start();
    for (const i of numbered(12)) set(`tenant-${i}/web`);
    index.setService("calm/web", service("web", "calm"));
    const given: (readonly string[])[] = [];
    while (index.isChanged) given.push([...index.takeChanges(share).keys()]);
    assert.deepEqual(
      given.map(({ length }) => length),
      [4, 3, 3, 3],
    );
    assert.ok(given[0]?.includes("calm/web"));
  });

  it("gives a few Services with many external addresses and ports at a time", () => {
    const index = new ServiceIndex({ name: "kip" });
    const externalIPs = numbered(10).map((i) => `192.0.2.${i}`);
    for (const i of numbered(50)) {
      const each = service(`s${i}`, "a");
      index.setService(`a/s${i}`, { ...each, spec: { ...each.spec, externalIPs } });
    }
    // Each asks for 1,000 addresses and ports.
    assert.ok(index.takeChanges(share).size < 10);
    for (let left = 50; left > 0; left--) index.takeChanges(share);
    assert.equal(index.isChanged, false);
  });

  it("gives one Service with very many source ranges at a time", () => {
    const index = new ServiceIndex({ name: "kip" });
    const loadBalancerSourceRanges = numbered(20_000).map((i) => `10.${i >> 8}.${i & 255}.0/24`);
    for (const i of numbered(4)) {
      const each = service(`s${i}`, `tenant-${i}`);
      const spec = { ...each.spec, loadBalancerSourceRanges };
      index.setService(`tenant-${i}/s${i}`, { ...each, spec });
    }
    assert.equal(index.takeChanges(share).size, 1);
  });

  it("gives back few addresses each of very many Services in parts", () => {
    const index = new ServiceIndex({ name: "kip" });
    const externalIPs = numbered(63).map((i) => `192.0.2.${i}`);
    const all = numbered(1000).map((i) => {
      const spec = { clusterIP: `10.9.${i >> 8}.${i & 255}`, externalIPs, ports: [{ port: 80 }] };
      return { metadata: meta(`s${i}`, "a"), spec };
    });
    for (const each of all) index.setService(`a/${each.metadata.name}`, each);
    index.takeChanges();
    for (const { metadata } of all) index.setService(`a/${metadata.name}`, undefined);
    // None has rules any longer, at once.
    assert.equal(index.takeChanges(share).size, 1000);
    assert.ok(index.changedCount > 500);
    for (let left = 3; left > 0; left--) index.takeChanges(share);
    assert.equal(index.isChanged, false);
  });

  it("gives a few Services at a time whose slices have very many ports and no endpoints", () => {
    const { index, set } = start();
    for (const i of numbered(20)) {
      set(`a/s${i}`, { endpoints: 0 });
      for (const j of numbered(250)) index.setSlice(emptySlice(`s${i}`, j));
    }
    assert.ok(index.takeChanges(share).size < 10);
    for (let left = 20; left > 0; left--) index.takeChanges(share);
    assert.equal(index.isChanged, false);
  });
});
