import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import { K8sError, paths, type ApiClient } from "@kip/k8s-client";
import { unknownSums } from "@kip/network-view";
import { ManualClock } from "@kip/testing";
import { ClusterNetwork } from "./cluster-network.ts";

/** An API server that forbids these paths and has these objects, by path. */
function start(
  forbidden: Set<string>,
  hasTiers = false,
  missing = new Set<string>(),
  objects: ReadonlyMap<string, readonly object[]> = new Map(),
) {
  const stop = new AbortController();
  const clock = new ManualClock();
  const led: string[] = [];
  const ranges = [["10.96.0.0/16", "fd00::/112"]];
  const client = {
    get: async () => {
      if (!hasTiers) throw new K8sError("K8S_NOT_FOUND", "no such group");
      return { resources: [{ name: "clusternetworkpolicies" }] };
    },
    list: async (path: string) => {
      if (forbidden.has(path)) throw new K8sError("K8S_FORBIDDEN", "forbidden");
      if (missing.has(path)) throw new K8sError("K8S_NOT_FOUND", "no such resource");
      const isRange = path === paths.serviceCidrs();
      const items = isRange
        ? ranges.map((cidrs) => ({ spec: { cidrs } }))
        : (objects.get(path) ?? []);
      return { items, metadata: { resourceVersion: "1" } };
    },
    stream: async () => await new Promise(() => {}),
  } as unknown as ApiClient; // the methods that are called
  const network = new ClusterNetwork({
    client,
    facts: {
      get: async () => ({
        nameservers: [],
        searchDomains: [],
        cidrs: [],
        nodeAddresses: ["10.0.0.2"],
      }),
    },
    driver: {
      routeServices: async (source) => {
        using subscription = source.subscribe([]);
        assert.ok(subscription);
        led.push("led");
      },
    },
    node: { name: "kip", zone: "a" },
    nodeAddresses: ["10.0.0.1"],
    clock,
    logger: silentLogger,
    signal: stop.signal,
  });
  network.start();
  return { network, clock, stop, led, ranges };
}

describe("ClusterNetwork", () => {
  it("gives pods the node's addresses, those of its computer, and the ranges of Services that the API server has", async () => {
    const { network, stop } = start(new Set());
    assert.deepEqual(await network.settings(), {
      nodeAddresses: ["10.0.0.1", "10.0.0.2"],
      serviceRanges: ["10.96.0.0/16", "fd00::/112"],
    });
    stop.abort();
  });

  it("gives pods no network while kip may not watch it, and begins once it may", async () => {
    const forbidden = new Set([paths.networkPolicies()]);
    const { network, clock, stop } = start(forbidden);
    assert.equal(await network.settings(), undefined);
    forbidden.clear();
    await clock.advance(60_000);
    await new Promise(setImmediate);
    assert.ok(await network.settings());
    stop.abort();
  });

  it("gives pods no network while kip may not list policies of administrators that are installed", async () => {
    const path = "/apis/policy.networking.k8s.io/v1beta1/clusternetworkpolicies";
    const { network, stop } = start(new Set([path]), true);
    assert.equal(await network.settings(), undefined);
    stop.abort();
  });

  it("follows hints for the zone that the Node is labelled with, as kube-proxy does", async () => {
    const metadata = (name: string, labels: object) => ({
      metadata: { namespace: "default", name, uid: name, resourceVersion: "1", labels },
    });
    const endpoint = (address: string, zone: string) => ({
      addresses: [address],
      hints: { forZones: [{ name: zone }] },
    });
    const slice = {
      ...metadata("web-1", { "kubernetes.io/service-name": "web" }),
      addressType: "IPv4",
      ports: [{ name: "", port: 80, protocol: "TCP" }],
      endpoints: [endpoint("10.1.0.1", "a"), endpoint("10.1.0.2", "b")],
    };
    const spec = { clusterIP: "10.96.0.9", clusterIPs: ["10.96.0.9"], ports: [{ port: 80 }] };
    const objects = new Map<string, readonly object[]>([
      [paths.services(), [{ ...metadata("web", {}), spec }]],
      [paths.endpointSlices(), [slice]],
      [paths.nodes(), [metadata("kip", { "topology.kubernetes.io/zone": "b" })]],
    ]);
    const { network, stop } = start(new Set(), false, new Set(), objects);
    await network.settings();
    await network.synced(stop.signal);
    using cell = network.subscribe({ podUid: "a", namespace: "default", sums: unknownSums() });
    const change = Buffer.concat(await cell.next(stop.signal)).toString();
    assert.match(change, /"endpoints":\["10\.1\.0\.2:80"\]/);
    stop.abort();
  });

  it("has the API server's computer led to Services once they are known", async () => {
    const { network, stop, led } = start(new Set());
    await network.settings();
    await network.synced(stop.signal);
    await new Promise(setImmediate);
    assert.deepEqual(led, ["led"]);
    stop.abort();
  });

  it("leads it again after a minute if that has ended", async () => {
    const { network, clock, stop, led } = start(new Set());
    await network.synced(stop.signal);
    await new Promise(setImmediate);
    await clock.advance(60_000);
    await new Promise(setImmediate);
    assert.deepEqual(led, ["led", "led"]);
    stop.abort();
  });

  it("asks for the ranges of Services again after a second if they could not be listed", async () => {
    const failing = new Set([paths.serviceCidrs()]);
    const { network, clock, stop } = start(failing);
    assert.deepEqual((await network.settings())?.serviceRanges, []);
    failing.clear();
    await clock.advance(1000);
    await new Promise(setImmediate);
    assert.equal((await network.settings())?.serviceRanges.length, 2);
    stop.abort();
  });

  it("keeps the ranges of Services while their API is not found, and asks again", async () => {
    const missing = new Set<string>();
    const { network, clock, stop, ranges } = start(new Set(), false, missing);
    await network.settings();
    missing.add(paths.serviceCidrs());
    await clock.advance(60_000);
    await new Promise(setImmediate);
    assert.equal((await network.settings())?.serviceRanges.length, 2);
    missing.clear();
    ranges.push(["10.97.0.0/16"]);
    await clock.advance(60_000);
    await new Promise(setImmediate);
    assert.ok((await network.settings())?.serviceRanges.includes("10.97.0.0/16"));
    stop.abort();
  });

  it("gives new pods a range of Services that was added later, after a minute", async () => {
    const { network, clock, stop, ranges } = start(new Set());
    await network.settings();
    ranges.push(["10.97.0.0/16"]);
    await clock.advance(60_000);
    await new Promise(setImmediate);
    assert.ok((await network.settings())?.serviceRanges.includes("10.97.0.0/16"));
    stop.abort();
  });

  it("leaves the ranges of Services open where the API server does not tell them", async () => {
    const { network, stop } = start(new Set([paths.serviceCidrs()]));
    assert.deepEqual((await network.settings())?.serviceRanges, []);
    stop.abort();
  });
});
