import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import type { EndpointSlice, StoredService } from "@kip/k8s-types/network";
import type { ServiceView } from "@kip/network-view";
import type { ChangeShare } from "./change-queue.ts";
import { ServiceIndex } from "./service-index.ts";

const numbered = (count: number): readonly number[] => Array.from({ length: count }, (_, i) => i);

interface Shape {
  readonly day: number;
  readonly clusterIp: string;
  readonly externalIPs?: readonly string[];
  readonly ports?: number;
}

function service(key: string, { day, clusterIp, externalIPs, ports = 1 }: Shape): StoredService {
  const [namespace = "", name = ""] = key.split("/");
  return {
    metadata: {
      namespace,
      name,
      uid: key,
      resourceVersion: "1",
      creationTimestamp: `2026-01-0${day}T00:00:00Z`,
    },
    spec: {
      clusterIP: clusterIp,
      externalIPs: [...(externalIPs ?? [])],
      ports: numbered(ports).map((i) => ({ name: `p${i}`, port: 80 + i })),
    },
  };
}

/** @param onRead is called whenever an endpoint is read */
function slice(key: string, ports: number, count: number, onRead = () => {}): EndpointSlice {
  const [namespace = "", name = ""] = key.split("/");
  const labels = { "kubernetes.io/service-name": name };
  return {
    metadata: { namespace, name, uid: key, resourceVersion: "1", labels },
    addressType: "IPv4",
    ports: numbered(ports).map((i) => ({ name: `p${i}`, port: 8080, protocol: "TCP" })),
    endpoints: numbered(count).map((i) => ({
      get addresses() {
        onRead();
        return [`10.1.${i >> 8}.${i & 255}`];
      },
      conditions: { ready: i === 0 },
    })),
  };
}

const share: ChangeShare = { perNamespace: 100, total: 500 };

describe("ServiceIndex with an address that goes from one Service to another", () => {
  it("computes large Services again one at a time, however many lose or get an address by one change", () => {
    const count = 20;
    const [ports, endpoints] = [50, 600];
    let reads = 0;
    const index = new ServiceIndex({ name: "kip" });
    const addresses = numbered(count).map((i) => `192.0.2.${100 + i}`);
    for (const [i, address] of addresses.entries()) {
      const shape = { day: 2, clusterIp: `10.96.1.${i}`, externalIPs: [address], ports };
      index.setService(`tenant/s${i}`, service(`tenant/s${i}`, shape));
      index.setSlice(slice(`tenant/s${i}`, ports, endpoints, () => reads++));
    }
    while (index.isChanged) index.takeChanges(share);
    const take = () => {
      reads = 0;
      return index.takeChanges(share);
    };
    const holder = { day: 1, clusterIp: "10.96.2.1" };
    index.setService("tenant/old", service("tenant/old", { ...holder, externalIPs: addresses }));
    const lost = new Set<string>();
    while (index.isChanged) {
      const views = take();
      assert.equal(reads, 0);
      const losers = [...views].filter(([key]) => key !== "tenant/old");
      // One at a time, as when they change: those of the largest size count as more than 100.
      assert.ok(losers.length <= 1, String(losers.length));
      for (const [key, view] of losers) {
        lost.add(key);
        assert.equal(view?.externalIps, undefined);
        assert.deepEqual(view?.ports[ports - 1]?.endpoints, ["10.1.0.0:8080"]);
      }
      const old = views.get("tenant/old");
      if (old) assert.ok((old.externalIps?.length ?? 0) <= lost.size);
    }
    assert.equal(lost.size, count);
    assert.equal(index.view("tenant/old")?.externalIps?.length, count);
    index.setService("tenant/old", service("tenant/old", holder));
    assert.deepEqual([...take().keys()], ["tenant/old"]);
    assert.equal(reads, 0);
    for (const i of numbered(count)) {
      const got = take();
      assert.deepEqual([...got.keys()], [`tenant/s${i}`]);
      assert.deepEqual(got.get(`tenant/s${i}`)?.externalIps, [addresses[i]]);
      assert.equal(reads, endpoints);
    }
    assert.equal(index.isChanged, false);
  });

  it("gives a Service its cluster IP at once, however many lose addresses to one of another namespace", () => {
    const [ports, endpoints] = [50, 600];
    const index = new ServiceIndex({ name: "kip" });
    const clusterIp = "10.96.9.9";
    const addresses = [...numbered(40).map((i) => `192.0.2.${100 + i}`), clusterIp];
    for (const [i, address] of addresses.entries()) {
      const key = `tenant-${i % 4}/s${i}`;
      const shape = { day: 2, clusterIp: `10.96.1.${i}`, externalIPs: [address], ports };
      index.setService(key, service(key, shape));
      index.setSlice(slice(key, ports, endpoints));
    }
    while (index.isChanged) index.takeChanges(share);
    const [web, old] = ["victim/web", "evil/old"];
    const others = { day: 1, clusterIp: "10.96.2.1", externalIPs: addresses.slice(0, -1) };
    index.setService(old, service(old, others));
    index.takeChanges(share);
    index.setService(web, service(web, { day: 3, clusterIp }));
    const views = index.takeChanges(share);
    assert.equal(views.get("tenant-0/s40")?.externalIps, undefined);
    assert.equal(views.get(web)?.ports.length, 1);
    assert.ok((index.view(old)?.externalIps?.length ?? 0) < 10);
    while (index.isChanged) index.takeChanges(share);
    assert.equal(index.view(old)?.externalIps?.length, 40);
  });

  it("keeps ports of a Service whose cluster IP another one has at a port that comes", () => {
    const index = new ServiceIndex({ name: "kip" });
    const clusterIp = "10.96.9.9";
    const large = (key: string, address: string, ports: number, from = 0): void => {
      const shape = { day: 2, clusterIp: "10.96.1.1", externalIPs: [address], ports };
      const { spec, ...rest } = service(key, shape);
      index.setService(key, { ...rest, spec: { ...spec, ports: spec?.ports?.slice(from) ?? [] } });
      index.setSlice(slice(key, ports, 36_000 / ports));
    };
    for (const i of numbered(9)) large(`t${i}/s`, `192.0.2.${i}`, 50);
    index.setService("victim/web", service("victim/web", { day: 3, clusterIp }));
    while (index.isChanged) index.takeChanges(share);
    large("t9/s", clusterIp, 9, 1);
    while (index.isChanged) index.takeChanges(share);
    assert.deepEqual(index.view("t9/s")?.externalIps, [clusterIp]);
    const externalIPs = numbered(9).map((i) => `192.0.2.${i}`);
    const old = service("victim/old", { day: 1, clusterIp: "10.96.2.1", externalIPs });
    index.setService("victim/old", old);
    index.takeChanges(share);
    index.setService("victim/web", service("victim/web", { day: 3, clusterIp, ports: 2 }));
    // Other Services come before, so it may have to wait for the second port.
    assert.deepEqual(
      index
        .takeChanges(share)
        .get("victim/web")
        ?.ports.map(({ port }) => port),
      [80],
    );
    while (index.isChanged) index.takeChanges(share);
    assert.equal(index.view("victim/web")?.ports.length, 2);
    assert.equal(index.view("t9/s")?.externalIps, undefined);
  });

  it("gives back the addresses of a few Services at a time, if those that are gone asked for very many", () => {
    const index = new ServiceIndex({ name: "kip" });
    const ofTenant = (i: number) => numbered(250).map((k) => `192.0.${i}.${k}`);
    const set = (day: number, of: string, addresses: (i: number) => readonly string[]): void => {
      for (const i of numbered(100)) {
        const clusterIp = `10.96.${day}.${i}`;
        const each = service(`${of}/s${i}`, {
          day,
          clusterIp,
          externalIPs: addresses(i),
          ports: 4,
        });
        index.setService(`${of}/s${i}`, each);
      }
    };
    set(1, "tenant", ofTenant);
    set(2, "young", (i) => ofTenant(i).slice(0, 1));
    while (index.isChanged) index.takeChanges(share);
    for (const i of numbered(100)) index.setService(`tenant/s${i}`, undefined);
    assert.equal(index.takeChanges(share).size, 100, "all are gone for cells at once");
    const sizes: number[] = [];
    const got = new Set<string>();
    while (index.isChanged) {
      const views = index.takeChanges(share);
      sizes.push(views.size);
      for (const [key, view] of views) if (view?.externalIps?.length === 1) got.add(key);
    }
    assert.equal(got.size, 100);
    assert.deepEqual(sizes, [25, 25, 25, 25]);
  });

  it("gives no address and port to two Services at a time, and in the end each to its holder, whatever comes and goes", () => {
    const step = fc.record({
      number: fc.nat(5),
      isGone: fc.boolean(),
      externalIPs: fc.uniqueArray(fc.constantFrom("192.0.2.1", "192.0.2.2", "10.96.0.0")),
      // The last one asks for more than are given back at once.
      ports: fc.constantFrom(1, 2, 40),
      endpoints: fc.constantFrom(1, 300),
      takes: fc.nat(2),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
        const index = new ServiceIndex({ name: "kip" });
        const given = new Map<string, ServiceView>();
        const services = new Map<string, StoredService>();
        const slices = new Map<string, EndpointSlice>();
        const take = (): void => {
          for (const [key, view] of index.takeChanges({ perNamespace: 1, total: 2 }))
            if (view) given.set(key, view);
            else given.delete(key);
          assertApart(given);
        };
        for (const { number, isGone, externalIPs, ports, endpoints, takes } of steps) {
          const key = `n${number % 2}/s${number}`;
          const day = 6 - number;
          const shape = { day, clusterIp: `10.96.0.${number}`, externalIPs, ports };
          const after = isGone ? undefined : service(key, shape);
          if (after) services.set(key, after);
          else services.delete(key);
          index.setService(key, after);
          const ofService = slice(key, ports, Math.ceil(endpoints / ports));
          slices.set(key, ofService);
          index.setSlice(ofService);
          for (const _ of numbered(takes)) take();
        }
        while (index.isChanged) take();
        const fresh = new ServiceIndex({ name: "kip" });
        for (const [key, each] of services) fresh.setService(key, each);
        for (const each of slices.values()) fresh.setSlice(each);
        const expected = [...fresh.takeChanges()].filter(([, view]) => view !== undefined);
        assert.deepEqual(new Map(given), new Map(expected));
      }),
    );
  });
});

function assertApart(views: ReadonlyMap<string, ServiceView>): void {
  const owners = new Map<string, string>();
  for (const [key, { clusterIps, externalIps = [], loadBalancerIps = [], ports }] of views)
    for (const address of [...clusterIps, ...externalIps, ...loadBalancerIps])
      for (const { protocol, port } of ports) {
        const text = `${address}/${protocol}/${port}`;
        assert.equal(owners.get(text) ?? key, key, text);
        owners.set(text, key);
      }
}
