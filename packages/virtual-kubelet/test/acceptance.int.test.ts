import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { silentLogger, systemClock } from "@kip/base";
import { K8sError, createInformer, paths } from "@kip/k8s-client";
import type { Event, Lease, Node, Pod } from "@kip/k8s-types";
import { eventually } from "@kip/testing";
import { MemoryProvider } from "@kip/virtual-kubelet/testing";
import { until } from "./eventually.ts";
import {
  createPod,
  isRunning,
  nodeWith,
  podsUntil,
  uniqueNodeName,
  useCluster,
  variants,
  waitForCall,
} from "./support/cluster.ts";

const cluster = useCluster();

/** Waits until a pod has an event with each of these reasons. */
async function eventsUntil(pod: Pod, ...reasons: readonly string[]): Promise<Event[]> {
  const { namespace, uid } = pod.metadata;
  return until<Event>({
    client: cluster.admin,
    path: paths.events(namespace),
    check: (events) => {
      const about = events.filter(({ involvedObject }) => involvedObject.uid === uid);
      return reasons.every((wanted) => about.some(({ reason }) => reason === wanted));
    },
  });
}

for (const { name: variant, make } of variants)
  describe(`pods as the original had them, ${variant} provider`, () => {
    it("ends with a terminal phase before its object goes (L1)", async () => {
      const { provider } = make();
      await using running = await nodeWith(cluster, provider);
      const namespace = await cluster.plane.createNamespace();
      await createPod(cluster, {
        namespace,
        node: running.name,
        metadata: { finalizers: ["example.test/hold"] },
      });
      await podsUntil(cluster, namespace, ([pod]) => isRunning(pod));
      await cluster.admin.delete(paths.pods(namespace, "web"), { graceSeconds: 10 });
      // A polled provider is not asked how the containers ended.
      const phase = variant === "polled" ? "Failed" : "Succeeded";
      const [ended] = await podsUntil(cluster, namespace, ([pod]) => pod?.status?.phase === phase);
      assert.ok(ended?.status?.containerStatuses?.every(({ state }) => state?.terminated));
      if (variant === "polled") assert.equal(ended?.status?.reason, "Terminated");
      await cluster.admin.patch(
        paths.pods(namespace, "web"),
        { metadata: { finalizers: null } },
        "merge",
      );
      await podsUntil(cluster, namespace, (pods) => pods.length === 0);
    });

    it("keeps the object while the provider cannot remove the pod, and retries (L3)", async () => {
      const { memory, provider } = make();
      await using running = await nodeWith(cluster, provider, { intervals: { podBackoffMs: 20 } });
      const namespace = await cluster.plane.createNamespace();
      const pod = await createPod(cluster, { namespace, node: running.name });
      await podsUntil(cluster, namespace, ([each]) => isRunning(each));
      memory.failures.remove.push(...Array.from({ length: 3 }, () => new Error("stuck")));
      const held = Promise.withResolvers<void>();
      memory.gate = () => (memory.count("remove") < 3 ? Promise.resolve() : held.promise);
      await cluster.admin.delete(paths.pods(namespace, "web"));
      await eventually(() => memory.count("remove") >= 3);
      const kept = await cluster.admin.get<Pod>(paths.pods(namespace, "web"));
      assert.ok(kept.metadata?.deletionTimestamp !== undefined);
      await eventsUntil(pod, "ProviderDeleteFailed");
      held.resolve();
      await podsUntil(cluster, namespace, (pods) => pods.length === 0);
    });

    it("runs fifty pods that are created at once (L9)", async (t) => {
      const { memory, provider } = make();
      await using running = await nodeWith(cluster, provider);
      const namespace = await cluster.plane.createNamespace();
      const startedAt = performance.now();
      const names = Array.from({ length: 50 }, (_, index) => `p${index}`);
      await Promise.all(
        names.map((name) => createPod(cluster, { namespace, node: running.name, name })),
      );
      await podsUntil(cluster, namespace, (pods) => pods.length === 50 && pods.every(isRunning));
      const seconds = (performance.now() - startedAt) / 1000;
      assert.equal(memory.count("apply"), 50);
      t.diagnostic(`${(50 / seconds).toFixed(0)} pods/s`);
    });

    it("passes on the environment unresolved if that is configured (P5)", async () => {
      const { memory, provider } = make();
      await using running = await nodeWith(cluster, provider, { resolveEnv: false });
      const namespace = await cluster.plane.createNamespace();
      const env = [
        { name: "NODE", valueFrom: { fieldRef: { apiVersion: "v1", fieldPath: "spec.nodeName" } } },
        { name: "S", valueFrom: { secretKeyRef: { name: "nowhere", key: "k" } } },
      ];
      const { metadata } = await createPod(cluster, {
        namespace,
        node: running.name,
        container: { env },
      });
      await podsUntil(cluster, namespace, ([pod]) => isRunning(pod));
      const given = memory.pods.get(metadata?.uid ?? "");
      assert.deepEqual(given?.pod.spec.containers[0]?.env, env);
      assert.equal(given?.env.size, 0);
    });

    it("does not apply an unchanged pod, whatever the order of its variables (P7, P8)", async () => {
      const { memory, provider } = make();
      await using running = await nodeWith(cluster, provider);
      const namespace = await cluster.plane.createNamespace();
      const path = paths.configMaps(namespace);
      await cluster.admin.create(path, { metadata: { name: "c" }, data: { B: "2", A: "1" } });
      const { metadata } = await createPod(cluster, {
        namespace,
        node: running.name,
        container: { envFrom: [{ configMapRef: { name: "c" } }] },
      });
      await podsUntil(cluster, namespace, ([pod]) => isRunning(pod));
      const first = memory.pods.get(metadata?.uid ?? "")?.env.get("main");
      const applied = waitForCall(memory, "apply");
      await cluster.admin.patch(
        paths.configMaps(namespace, "c"),
        { data: { A: "1", B: "2" }, metadata: { labels: { touched: "1" } } },
        "merge",
      );
      await applied; // its version changed, its content did not
      assert.deepEqual(memory.pods.get(metadata?.uid ?? "")?.env.get("main"), first);
      await running.node.sweep();
      assert.equal(memory.count("apply"), 2);
    });

    it("leaves a pod alone whose provider has not reported a status (P13)", async () => {
      const { memory, provider } = make();
      memory.report = () => {};
      await using running = await nodeWith(cluster, provider);
      const namespace = await cluster.plane.createNamespace();
      await createPod(cluster, { namespace, node: running.name });
      await eventually(() => memory.pods.size === 1);
      await running.node.sweep();
      const pod = await cluster.admin.get<Pod>(paths.pods(namespace, "web"));
      assert.equal(pod.status?.phase, "Pending");
      assert.equal(pod.metadata.deletionTimestamp, undefined);
      assert.equal(memory.count("remove") + memory.count("removeUnknown"), 0);
    });

    it("handles the pods of its own node only (C3, F1)", async () => {
      const { memory, provider } = make();
      await using running = await nodeWith(cluster, provider);
      const namespace = await cluster.plane.createNamespace();
      await createPod(cluster, { namespace, node: uniqueNodeName(), name: "foreign" });
      await createPod(cluster, { namespace, node: running.name, name: "own" });
      await podsUntil(cluster, namespace, (pods) => pods.some(isRunning));
      for (const name of ["foreign", "own"])
        await cluster.admin.patch(
          paths.pods(namespace, name),
          { metadata: { labels: { a: "b" } } },
          "merge",
        );
      await eventually(() => memory.count("apply") === 2);
      for (const name of ["foreign", "own"])
        await cluster.admin.delete(paths.pods(namespace, name), { graceSeconds: 1 });
      await podsUntil(cluster, namespace, (pods) => !pods.some((p) => p.metadata?.name === "own"));
      assert.equal(new Set(memory.calls.map(({ uid }) => uid)).size, 1);
      assert.equal(running.node.findPod(namespace, "foreign"), undefined);
      await cluster.admin
        .delete(paths.pods(namespace, "foreign"), { graceSeconds: 0 })
        .catch(() => {});
    });

    it("stops although a call of the provider never returns (C1)", async () => {
      const { memory, provider } = make();
      const running = await nodeWith(cluster, provider);
      const namespace = await cluster.plane.createNamespace();
      const called = waitForCall(memory, "apply");
      const gate = memory.gate;
      memory.gate = async (call) => {
        await gate(call);
        await new Promise(() => {}); // and ignores its signal
      };
      await createPod(cluster, { namespace, node: running.name });
      await called;
      await running[Symbol.asyncDispose]();
    });

    for (const [kind, optional, expected] of [
      ["Secret", true, "OptionalSecretNotFound"],
      ["ConfigMap", true, "OptionalConfigMapNotFound"],
      ["Secret", false, "MandatorySecretNotFound"],
      ["ConfigMap", false, "MandatoryConfigMapNotFound"],
    ] as const) {
      const ids = { Secret: ["K7", "K6"], ConfigMap: ["K9", "K8"] }[kind][Number(optional)];
      const outcome = optional ? "starts without" : "does not start without";
      it(`${outcome} a ${optional ? "optional" : "mandatory"} ${kind} that does not exist (${ids}, R1)`, async () => {
        const { memory, provider } = make();
        await using running = await nodeWith(cluster, provider);
        const namespace = await cluster.plane.createNamespace();
        const selector = { name: "nowhere", key: "key", optional };
        const valueFrom =
          kind === "Secret" ? { secretKeyRef: selector } : { configMapKeyRef: selector };
        const pod = await createPod(cluster, {
          namespace,
          node: running.name,
          container: { env: [{ name: "X", valueFrom }] },
        });
        await eventsUntil(pod, expected);
        if (optional) await podsUntil(cluster, namespace, ([each]) => isRunning(each));
        assert.equal(memory.pods.size, optional ? 1 : 0);
      });
    }
  });

describe("a provider's reports about its pods", () => {
  it("sets annotations with a status, which do not count as a change (E3)", async () => {
    const provider = new MemoryProvider();
    await using running = await nodeWith(cluster, provider);
    const namespace = await cluster.plane.createNamespace();
    const { metadata } = await createPod(cluster, {
      namespace,
      node: running.name,
      metadata: { annotations: { theirs: "1" } },
    });
    await podsUntil(cluster, namespace, ([pod]) => isRunning(pod));
    provider.report(metadata?.uid ?? "", "Running", { annotations: { "backend/id": "42" } });
    const [pod] = await podsUntil(
      cluster,
      namespace,
      ([each]) => each?.metadata?.annotations?.["backend/id"] === "42",
    );
    assert.equal(pod?.metadata?.annotations?.["theirs"], "1");
    assert.equal(provider.count("apply"), 1);
  });

  it("deletes the object of a pod that the backend removed, with its containers ended (P9)", async () => {
    const provider = new MemoryProvider();
    await using running = await nodeWith(cluster, provider);
    const namespace = await cluster.plane.createNamespace();
    const { metadata } = await createPod(cluster, { namespace, node: running.name });
    await podsUntil(cluster, namespace, ([pod]) => isRunning(pod));
    const last = Promise.withResolvers<Pod>();
    const stop = new AbortController();
    createInformer<Pod>({
      client: cluster.admin,
      path: paths.pods(namespace),
      onEvent: ({ type, object }) => void (type === "deleted" && last.resolve(object)),
      clock: systemClock,
      logger: silentLogger,
      signal: stop.signal,
    });
    provider.report(metadata?.uid ?? "", "Running", { isDeleted: true });
    const pod = await last.promise;
    stop.abort();
    assert.equal(pod.status?.phase, "Failed");
    assert.equal(pod.status.containerStatuses?.[0]?.state?.terminated?.exitCode, 137);
    assert.equal(provider.count("remove"), 0);
  });

  it("fails a pod that a polled backend has lost (L1)", async () => {
    const { memory, provider } = variants[1]?.make() ?? assert.fail();
    await using running = await nodeWith(cluster, provider);
    const namespace = await cluster.plane.createNamespace();
    const { metadata } = await createPod(cluster, { namespace, node: running.name });
    await podsUntil(cluster, namespace, ([pod]) => isRunning(pod));
    memory.statuses.delete(metadata?.uid ?? "");
    const [pod] = await podsUntil(cluster, namespace, ([each]) => each?.status?.phase === "Failed");
    assert.equal(pod?.status?.reason, "NotFound");
    assert.equal(pod.status.containerStatuses?.[0]?.state?.terminated?.exitCode, 137);
    assert.equal(pod.status.containerStatuses[0].state.running, undefined);
  });
});

describe("a node as the original had it", () => {
  const nodeIs = (name: string, check: (node: Node | undefined) => boolean): Promise<Node[]> =>
    until<Node>({
      client: cluster.admin,
      path: paths.nodes(),
      fieldSelector: `metadata.name=${name}`,
      check: ([node]) => check(node),
    });

  it("uses its status as heartbeat when it has no lease (N1)", async () => {
    const provider = new MemoryProvider();
    await using running = await nodeWith(cluster, provider, {
      lease: false,
      intervals: { pingMs: 20 },
    });
    const versions = new Set<string>();
    await nodeIs(
      running.name,
      (node) => versions.add(node?.metadata?.resourceVersion ?? "").size >= 4,
    );
    provider.facts = {
      ...provider.facts,
      notReady: { reason: "Maintenance", message: "back soon" },
    };
    provider.nodeChanged();
    await nodeIs(
      running.name,
      (node) =>
        node?.status?.conditions?.find(({ type }) => type === "Ready")?.reason === "Maintenance",
    );
    const leases = await cluster.admin.list<Lease>(paths.leases("kube-node-lease"));
    assert.ok(!leases.items.some(({ metadata }) => metadata?.name === running.name));
  });

  it("reports a failed status write to its program, which may repair the cause (N3)", async () => {
    const provider = new MemoryProvider();
    const seen = Promise.withResolvers<unknown>();
    let refuse = false;
    const client: typeof cluster.client = {
      ...bound(cluster.client),
      patch: async (path, body, type, options) => {
        if (refuse && path.endsWith("/status")) throw new K8sError("K8S_FORBIDDEN", "Cannot PATCH");
        return cluster.client.patch(path, body, type, options);
      },
    };
    await using running = await nodeWith(cluster, provider, {
      client,
      intervals: { pingMs: 20 },
      onStatusError: async (error) => {
        refuse = false;
        seen.resolve(error);
      },
    });
    refuse = true;
    provider.facts = { ...provider.facts, labels: { fixed: "yes" } };
    provider.nodeChanged();
    assert.match(String(await seen.promise), /Cannot PATCH/);
    await nodeIs(running.name, (node) => node?.metadata?.labels?.["fixed"] === "yes");
  });

  it("keeps pinging while a write of its status hangs (N5)", async () => {
    const provider = new MemoryProvider();
    let pings = 0;
    provider.ping = async () => void pings++;
    let isHanging = false;
    const client: typeof cluster.client = {
      ...bound(cluster.client),
      patch: async (path, body, type, options) => {
        if (isHanging && path.endsWith("/status")) await new Promise(() => {});
        return cluster.client.patch(path, body, type, options);
      },
    };
    const running = await nodeWith(cluster, provider, { client, intervals: { pingMs: 20 } });
    isHanging = true;
    provider.facts = { ...provider.facts, labels: { a: "b" } };
    provider.nodeChanged();
    const before = pings;
    await eventually(() => pings >= before + 5);
    void running[Symbol.asyncDispose](); // its last write never returns
  });

  it("writes the provider's facts, and again when its object was recreated (N4)", async () => {
    const provider = new MemoryProvider();
    await using running = await nodeWith(cluster, provider, { intervals: { pingMs: 50 } });
    for (const pods of ["10", "20"]) {
      provider.facts = { ...provider.facts, capacity: { cpu: "1", pods } };
      provider.nodeChanged();
      await nodeIs(running.name, (node) => node?.status?.capacity?.["pods"] === pods);
    }
    await cluster.admin.delete(paths.nodes(running.name));
    await nodeIs(running.name, (node) => node?.status?.capacity?.["pods"] === "20");
  });
});

/** A client's methods as a plain object, to replace some of them. */
function bound(client: typeof cluster.client): typeof cluster.client {
  return {
    server: client.server,
    get: (path, options) => client.get(path, options),
    list: (path, options) => client.list(path, options),
    create: (path, body, options) => client.create(path, body, options),
    replace: (path, body, options) => client.replace(path, body, options),
    patch: (path, body, type, options) => client.patch(path, body, type, options),
    delete: (path, options) => client.delete(path, options),
    stream: (path, options) => client.stream(path, options),
    request: (method, path, options) => client.request(method, path, options),
    close: () => client.close(),
  };
}
