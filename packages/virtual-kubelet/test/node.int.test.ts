import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { K8sError, isNotFound, isAlreadyExists, paths } from "@kip/k8s-client";
import type { Lease, Node } from "@kip/k8s-types";
import { MemoryProvider } from "@kip/virtual-kubelet/testing";
import { until } from "./eventually.ts";
import { nodeWith, useCluster } from "./support/cluster.ts";

const cluster = useCluster();

describe("startNode()", () => {
  it("registers the node with its facts, becomes Ready and keeps a lease (E1, E2, N2)", async () => {
    const provider = new MemoryProvider();
    provider.facts = { ...provider.facts, labels: { zone: "a" }, annotations: { note: "x" } };
    await using running = await nodeWith(cluster, provider, {
      intervals: { leaseMs: 300 },
      kubeletPort: 10250,
    });
    const node = await cluster.admin.get<Node>(paths.nodes(running.name));
    assert.equal(node.metadata?.labels?.["type"], "virtual-kubelet");
    assert.equal(node.metadata?.labels?.["zone"], "a");
    assert.equal(node.metadata?.annotations?.["note"], "x");
    assert.equal(node.metadata?.labels?.["kubernetes.io/hostname"], running.name);
    assert.equal(node.status?.capacity?.["pods"], "5k");
    assert.equal(node.status?.daemonEndpoints?.kubeletEndpoint?.Port, 10250);
    assert.ok(
      node.spec?.taints?.some(
        ({ key, value }) => key === "virtual-kubelet.io/provider" && value === "kip",
      ),
    );
    const ready = node.status?.conditions?.find(({ type }) => type === "Ready");
    assert.equal(ready?.status, "True");
    assert.equal(ready?.reason, "KubeletReady");
    const times = new Set<string>();
    const [lease] = await until<Lease>({
      client: cluster.admin,
      path: paths.leases("kube-node-lease"),
      fieldSelector: `metadata.name=${running.name}`,
      check: ([held]) => times.add(String(held?.spec?.renewTime)).size > 3,
    });
    assert.equal(lease?.spec?.holderIdentity, running.name);
    assert.deepEqual(lease?.metadata?.ownerReferences, [
      { apiVersion: "v1", kind: "Node", name: running.name, uid: node.metadata?.uid },
    ]);
  });

  it("has an address of each family, and keeps both while it writes its status", async () => {
    const provider = new MemoryProvider();
    provider.facts = { ...provider.facts, otherInternalIps: ["2001:db8::1"] };
    await using running = await nodeWith(cluster, provider);
    const expected = [
      { type: "InternalIP", address: provider.facts.internalIp },
      { type: "InternalIP", address: "2001:db8::1" },
      { type: "Hostname", address: running.name },
    ];
    const node = await cluster.admin.get<Node>(paths.nodes(running.name));
    assert.deepEqual(node.status?.addresses, expected);
    const counts = new Set<number | undefined>();
    for (const cpu of ["7", "8"]) {
      provider.facts = { ...provider.facts, capacity: { cpu, pods: "10" } };
      provider.nodeChanged();
      const [changed] = await until<Node>({
        client: cluster.admin,
        path: paths.nodes(),
        fieldSelector: `metadata.name=${running.name}`,
        check: ([each]) => {
          counts.add(each?.status?.addresses?.length);
          return each?.status?.capacity?.["cpu"] === cpu;
        },
      });
      assert.deepEqual(changed?.status?.addresses, expected);
    }
    assert.deepEqual([...counts], [3]);
  });

  it("keeps labels of other writers, and removes those that the provider dropped (N6, N7)", async () => {
    const provider = new MemoryProvider();
    provider.facts = { ...provider.facts, annotations: { mine: "1", old: "1" } };
    await using running = await nodeWith(cluster, provider);
    const condition = { type: "Custom", status: "True", reason: "R", message: "m" };
    await cluster.admin.patch(
      paths.nodes(running.name, "status"),
      { metadata: { annotations: { theirs: "1" } }, status: { conditions: [condition] } },
      "strategic",
    );
    provider.facts = {
      ...provider.facts,
      annotations: { mine: "2" },
      capacity: { cpu: "7", pods: "10" },
    };
    provider.nodeChanged();
    const [node] = await until<Node>({
      client: cluster.admin,
      path: paths.nodes(),
      fieldSelector: `metadata.name=${running.name}`,
      check: ([each]) => each?.metadata?.annotations?.["mine"] === "2",
    });
    assert.equal(node?.metadata?.annotations?.["theirs"], "1");
    assert.equal(node?.metadata?.annotations?.["old"], undefined);
    assert.deepEqual(node?.status?.capacity, { cpu: "7", pods: "10" });
    assert.equal(node?.status?.conditions?.length, 6);
  });

  it("is Ready=False with the reason while the provider's ping fails, and recovers", async () => {
    const provider = new MemoryProvider();
    await using running = await nodeWith(cluster, provider, { intervals: { leaseMs: 200 } });
    provider.failures.ping.push(...Array.from({ length: 3 }, () => new Error("no cloud today")));
    const readyIs = (wanted: string) => (nodes: readonly Node[]) =>
      nodes[0]?.status?.conditions?.find(({ type }) => type === "Ready")?.status === wanted;
    const watch = { client: cluster.admin, path: paths.nodes() };
    const fieldSelector = `metadata.name=${running.name}`;
    const [node] = await until<Node>({ ...watch, fieldSelector, check: readyIs("False") });
    const ready = node?.status?.conditions?.find(({ type }) => type === "Ready");
    assert.equal(ready?.reason, "ProviderNotReady");
    assert.match(ready?.message ?? "", /no cloud today/);
    await until<Node>({ ...watch, fieldSelector, check: readyIs("True") });
  });

  it("registers again when the Node object is deleted, and corrects the lease's owner (K10)", async () => {
    const provider = new MemoryProvider();
    await using running = await nodeWith(cluster, provider, { intervals: { leaseMs: 300 } });
    const first = await cluster.admin.get<Node>(paths.nodes(running.name));
    await cluster.admin.delete(paths.nodes(running.name));
    const [node] = await until<Node>({
      client: cluster.admin,
      path: paths.nodes(),
      fieldSelector: `metadata.name=${running.name}`,
      check: ([each]) =>
        each !== undefined &&
        each.metadata?.uid !== first.metadata?.uid &&
        each.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True"),
    });
    await until<Lease>({
      client: cluster.admin,
      path: paths.leases("kube-node-lease"),
      fieldSelector: `metadata.name=${running.name}`,
      check: ([lease]) => lease?.metadata?.ownerReferences?.[0]?.uid === node?.metadata?.uid,
    });
  });
});

describe("ApiClient errors on the real server", () => {
  it("carries a code for each refusal", async () => {
    const missing = cluster.admin.get(paths.pods("default", "missing"));
    await assert.rejects(missing, (error) => isNotFound(error));
    const again = cluster.admin.create(paths.namespaces(), { metadata: { name: "default" } });
    await assert.rejects(again, (error) => isAlreadyExists(error));
    const invalid = cluster.admin.create(paths.pods("default"), {
      metadata: { name: "x" },
      spec: {},
    });
    await assert.rejects(invalid, (error) => K8sError.is(error, "K8S_INVALID"));
    const forbidden = cluster.client.create(paths.namespaces(), { metadata: { name: "x" } });
    await assert.rejects(forbidden, (error) => K8sError.is(error, "K8S_FORBIDDEN"));
  });
});
