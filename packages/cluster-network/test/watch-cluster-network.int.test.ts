import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { every } from "@kip/base";
import { NetworkViews, watchClusterNetwork } from "@kip/cluster-network";
import { paths, type KubeObject } from "@kip/k8s-client";
import type { EndpointSlice } from "@kip/k8s-types/network";
import { bucketCount, ChangeReader, type ViewChange } from "@kip/network-view";
import { openTestCluster } from "./test-cluster.ts";

describe("watchClusterNetwork()", () => {
  it("gives a cell the Services and the policy that the API server has, and their changes", async () => {
    await using cluster = await openTestCluster();
    const { plane, client, options } = cluster;
    const { signal } = options;
    const namespace = await plane.createNamespace();
    const create = async <T extends object>(path: string, body: T): Promise<T> =>
      await client.create(path, body);
    await create(paths.services(namespace), {
      metadata: { name: "web", labels: { "service.kubernetes.io/headless": "" } },
      spec: { ports: [{ port: 80 }] },
    });
    await create(paths.services(namespace), {
      metadata: { name: "other", labels: { "service.kubernetes.io/service-proxy-name": "x" } },
      spec: { ports: [{ port: 80 }] },
    });
    await create(paths.services(namespace), {
      metadata: { name: "headless" },
      spec: { clusterIP: "None", ports: [{ port: 80 }] },
    });
    await create(paths.networkPolicies(namespace), {
      metadata: { name: "closed" },
      spec: { podSelector: {}, policyTypes: ["Ingress"] },
    });
    const pod = await client.create<KubeObject>(paths.pods(namespace), {
      metadata: { name: "web", namespace },
      spec: { nodeName: "kip", containers: [{ name: "c", image: "x" }] },
    });
    const node = `kip-${namespace}`;
    const labels = { "topology.kubernetes.io/zone": "b" };
    await create(paths.nodes(), { metadata: { name: node, labels } });
    const views = new NetworkViews({ node: { name: node, zone: "a" }, ...options });
    await watchClusterNetwork({ client, views, ...options }).synced(signal);
    const podUid = pod.metadata?.uid ?? "";
    using cell = views.subscribe({ podUid, namespace, sums: Array<number>(bucketCount).fill(0) });
    const reader = new ChangeReader();
    const next = async (): Promise<ViewChange> => {
      const [change] = [...reader.push(Buffer.concat(await cell.next(signal)))];
      assert.ok(change);
      return change;
    };
    const first = await next();
    assert.deepEqual(first.policy, { ingress: [] });
    assert.ok(first.services.has("default/kubernetes"));
    for (const name of ["headless", "other"])
      assert.ok(!first.services.has(`${namespace}/${name}`), name);
    assert.deepEqual(first.services.get(`${namespace}/web`)?.ports[0]?.endpoints, []);
    await create(paths.endpointSlices(namespace), {
      metadata: {
        name: "web-0",
        labels: { "kubernetes.io/service-name": "web", "service.kubernetes.io/headless": "" },
      },
      addressType: "IPv4",
      ports: [{ name: "", port: 8080, protocol: "TCP" }],
      endpoints: [{ addresses: ["10.9.9.9"] }],
    });
    await create(paths.endpointSlices(namespace), {
      metadata: { name: "web-1", labels: { "kubernetes.io/service-name": "web" } },
      addressType: "IPv4",
      ports: [{ name: "", port: 8080, protocol: "TCP" }],
      endpoints: ["a", "b"].map((name, i) => ({
        addresses: [`10.9.9.${i}`],
        hints: { forZones: [{ name }] },
      })),
    });
    const endpoints = (change: ViewChange) =>
      change.services.get(`${namespace}/web`)?.ports[0]?.endpoints ?? [];
    let change = await next();
    // Those for the zone of kip's own Node, whenever it is seen.
    while (endpoints(change)[0] !== "10.9.9.1:8080") change = await next();
    assert.equal(endpoints(change).length, 1);
    await client.delete(paths.nodes(node));
    await client.delete(paths.networkPolicies(namespace, "closed"));
    while (change.policy === undefined) change = await next();
    assert.deepEqual(change.policy, {});
  });

  it("follows the API server's own endpoint when its address changes", async () => {
    await using cluster = await openTestCluster();
    const { client, options } = cluster;
    const { signal } = options;
    const views = new NetworkViews({ node: { name: "kip" }, ...options });
    await watchClusterNetwork({ client, views, ...options }).synced(signal);
    const sums = Array<number>(bucketCount).fill(0);
    using cell = views.subscribe({ podUid: "", namespace: "default", sums });
    const reader = new ChangeReader();
    const until = async (address: string): Promise<void> => {
      let endpoints: readonly string[] = [];
      while (endpoints.length !== 1 || endpoints[0]?.startsWith(`${address}:`) !== true)
        for (const { services } of reader.push(Buffer.concat(await cell.next(signal))))
          endpoints = services.get("default/kubernetes")?.ports[0]?.endpoints ?? endpoints;
    };
    const path = paths.endpointSlices("default", "kubernetes");
    const slice = await client.get<EndpointSlice>(path);
    const own = slice.endpoints?.[0]?.addresses[0] ?? "";
    await until(own);
    // The API server may write its own address so soon that the cell never gets this one.
    const found = new AbortController();
    const repeated = { what: "move the endpoint", intervalMs: 1000, signal: found.signal };
    const moved = every({ ...options, ...repeated }, async () => {
      await client.patch(path, { endpoints: [{ addresses: ["10.9.8.7"] }] }, "merge");
    });
    await until("10.9.8.7");
    found.abort();
    await moved;
    // The API server writes its own address again within ten seconds.
    await until(own);
  });
});
