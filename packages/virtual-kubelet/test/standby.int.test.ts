import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { systemClock } from "@kip/base";
import { K8sError, paths, type ApiClient } from "@kip/k8s-client";
import type { Lease, Pod } from "@kip/k8s-types";
import { startStandbyNode, type PodProvider, type StandbyNode } from "@kip/virtual-kubelet";
import { MemoryProvider } from "@kip/virtual-kubelet/testing";
import {
  createPod,
  isRunning,
  logger,
  podsUntil,
  uniqueNodeName,
  useCluster,
} from "./support/cluster.ts";
import { Killable } from "./support/killable.ts";

const cluster = useCluster();

/** A replica that records its calls to the shared backend under its name. */
function replica(
  identity: string,
  nodeName: string,
  { backend, calls, process }: { backend: MemoryProvider; calls: string[]; process: Killable },
): StandbyNode {
  const noted: PodProvider = {
    start: (callbacks) => backend.start(callbacks),
    apply: async (pod) => {
      calls.push(`${identity} apply`);
      await backend.apply(pod);
    },
    remove: async (pod) => {
      calls.push(`${identity} remove`);
      await backend.remove(pod);
    },
    removeUnknown: async (uid) => {
      calls.push(`${identity} removeUnknown`);
      await backend.removeUnknown(uid);
    },
    presence: (uid) => backend.presence(uid),
    list: () => backend.list(),
    nodeFacts: () => backend.nodeFacts(),
    ping: () => backend.ping(),
  };
  return startStandbyNode({
    client: process.client(cluster.client),
    nodeName,
    provider: () => process.provider(noted),
    standby: { durationMs: 3000, identity },
    clock: systemClock,
    logger,
  });
}

describe("startStandbyNode()", () => {
  it("takes over from a dead replica within the lease time, and no pod is handled by both", async () => {
    const nodeName = uniqueNodeName();
    const namespace = await cluster.plane.createNamespace();
    const shared = { backend: new MemoryProvider(), calls: [] as string[] };
    const doomed = new Killable();
    const a = replica("a", nodeName, { ...shared, process: doomed });
    await a.active;
    await using b = replica("b", nodeName, { ...shared, process: new Killable() });
    await createPod(cluster, { namespace, node: nodeName, name: "first" });
    await podsUntil(cluster, namespace, ([pod]) => isRunning(pod));
    assert.equal(b.node, undefined);
    assert.deepEqual(shared.calls, ["a apply"]);
    doomed.kill();
    await createPod(cluster, { namespace, node: nodeName, name: "second" });
    const diedAt = performance.now();
    await b.active;
    const waitedMs = performance.now() - diedAt;
    await podsUntil(cluster, namespace, (pods) => pods.length === 2 && pods.every(isRunning));
    await cluster.admin.delete(paths.pods(namespace, "first"));
    await podsUntil(cluster, namespace, (pods) => pods.length === 1);
    assert.equal(shared.calls.filter((call) => call.startsWith("a ")).length, 1);
    assert.ok(!shared.calls.includes("b removeUnknown"), "nothing was taken for a stranger");
    // It must not be early, because the dead replica may have renewed just before. How late it is depends on the machine.
    assert.ok(waitedMs > 2000, `${waitedMs} ms`);
    const lease = await cluster.admin.get<Lease>(
      paths.leases("kube-node-lease", `${nodeName}.virtual-kubelet`),
    );
    assert.equal(lease.spec?.holderIdentity, "b");
    assert.equal(lease.spec?.leaseTransitions, 1);
    void a[Symbol.asyncDispose](); // a dead process does not stop cleanly
    await cluster.admin.delete(paths.nodes(nodeName));
  });

  it("hands the node over at once when it is stopped", async () => {
    const nodeName = uniqueNodeName();
    const namespace = await cluster.plane.createNamespace();
    const shared = { backend: new MemoryProvider(), calls: [] as string[] };
    const a = replica("a", nodeName, { ...shared, process: new Killable() });
    await a.active;
    await using b = replica("b", nodeName, { ...shared, process: new Killable() });
    await createPod(cluster, { namespace, node: nodeName });
    await podsUntil(cluster, namespace, ([pod]) => isRunning(pod));
    await a[Symbol.asyncDispose]();
    const seen = await b.active;
    await podsUntil(cluster, namespace, ([pod]) => isRunning(pod));
    assert.equal(shared.calls.includes("b removeUnknown"), false);
    assert.equal(seen.pods().length, 1);
    await cluster.admin.delete(paths.nodes(nodeName));
  });

  it("writes the terminal status of a pod before it hands the node over", async () => {
    const nodeName = uniqueNodeName();
    const namespace = await cluster.plane.createNamespace();
    const backend = new MemoryProvider();
    let isAway = false;
    const refused = Promise.withResolvers<void>();
    const client: ApiClient = {
      ...methodsOf(cluster.client),
      patch: async (path, body, kind, options) => {
        if (!isAway || !path.includes("/pods/"))
          return cluster.client.patch(path, body, kind, options);
        refused.resolve();
        throw new K8sError("K8S_UNAVAILABLE", "away", { retryable: true });
      },
    };
    const replicaOfOne = startStandbyNode({
      client,
      nodeName,
      provider: () => backend,
      standby: { durationMs: 3000 },
      clock: systemClock,
      logger,
    });
    await replicaOfOne.active;
    const { metadata } = await createPod(cluster, { namespace, node: nodeName });
    await podsUntil(cluster, namespace, ([pod]) => isRunning(pod));
    isAway = true;
    backend.report(metadata?.uid ?? "", "Succeeded");
    await refused.promise;
    isAway = false;
    await replicaOfOne[Symbol.asyncDispose]();
    const pod = await cluster.admin.get<Pod>(paths.pods(namespace, "web"));
    assert.equal(pod.status?.phase, "Succeeded");
    await cluster.admin.delete(paths.nodes(nodeName));
  });
});

/** A client's methods, for copies in which some are replaced. */
function methodsOf(client: ApiClient): ApiClient {
  return {
    server: client.server,
    get: (...args) => client.get(...args),
    list: (...args) => client.list(...args),
    create: (...args) => client.create(...args),
    replace: (...args) => client.replace(...args),
    patch: (...args) => client.patch(...args),
    delete: (...args) => client.delete(...args),
    stream: (...args) => client.stream(...args),
    request: (...args) => client.request(...args),
    close: () => client.close(),
  };
}
