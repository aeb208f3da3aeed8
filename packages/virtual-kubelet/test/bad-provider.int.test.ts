import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { paths } from "@kip/k8s-client";
import type { Event, Pod } from "@kip/k8s-types";
import { eventually } from "@kip/testing";
import type { PodProvider, ProviderCallbacks } from "@kip/virtual-kubelet";
import { MemoryProvider } from "@kip/virtual-kubelet/testing";
import { until } from "./eventually.ts";
import { createPod, isRunning, nodeWith, podsUntil, useCluster } from "./support/cluster.ts";

const cluster = useCluster();

/** Makes a provider fail for one pod and run the others well. */
type Fault = (uid: string, callbacks: ProviderCallbacks, memory: MemoryProvider) => Promise<void>;

const faults: Readonly<Record<string, { readonly reason: string; readonly fault: Fault }>> = {
  throws: {
    reason: "ProviderCreateFailed",
    fault: async () => {
      throw new Error("broken");
    },
  },
  "throws no error at all": {
    reason: "ProviderCreateFailed",
    // eslint-disable-next-line prefer-promise-reject-errors -- that is the point
    fault: () => Promise.reject("broken"),
  },
  hangs: { reason: "ProviderNotResponding", fault: () => new Promise(() => {}) },
  "answers nonsense": {
    reason: "ProviderStatusInvalid",
    fault: async (uid, callbacks) =>
      callbacks.podStatus({
        uid,
        status: { phase: "Excellent", containerStatuses: 7 as never },
      }),
  },
  "answers what the API server refuses": {
    reason: "ProviderStatusInvalid",
    fault: async (uid, callbacks) =>
      callbacks.podStatus({
        uid,
        status: { phase: "Running", podIPs: [{ ip: "not an address" }] },
      }),
  },
};

function faulty(name: string, fault: Fault): { provider: PodProvider; memory: MemoryProvider } {
  const memory = new MemoryProvider();
  let callbacks: ProviderCallbacks | undefined;
  const provider: PodProvider = {
    start: async (given) => {
      callbacks = given;
      await memory.start(given);
    },
    apply: async (pod) => {
      if (pod.pod.metadata.name !== name) return memory.apply(pod);
      await fault(pod.pod.metadata.uid ?? "", callbacks ?? assert.fail(), memory);
    },
    remove: (pod) => memory.remove(pod),
    removeUnknown: (uid) => memory.removeUnknown(uid),
    presence: (uid) => memory.presence(uid),
    list: () => memory.list(),
    nodeFacts: () => memory.nodeFacts(),
    ping: () => memory.ping(),
  };
  return { provider, memory };
}

const provided = (pod: Pod | undefined) =>
  pod?.status?.conditions?.find(({ type }) => type === "virtual-kubelet.io/ProviderReady");

describe("a provider that fails one pod", () => {
  for (const [what, { reason, fault }] of Object.entries(faults)) {
    it(`${what}: an event and a condition on that pod, and no other is disturbed`, async () => {
      const { provider } = faulty("victim", fault);
      await using running = await nodeWith(cluster, provider, {
        intervals: { slowCallMs: 300, podBackoffMs: 100 },
      });
      const namespace = await cluster.plane.createNamespace();
      const victim = await createPod(cluster, { namespace, node: running.name, name: "victim" });
      await createPod(cluster, { namespace, node: running.name, name: "bystander" });
      const named = (pods: readonly Pod[], name: string): Pod | undefined =>
        pods.find(({ metadata }) => metadata?.name === name);
      const pods = await podsUntil(
        cluster,
        namespace,
        (all) =>
          isRunning(named(all, "bystander")) && provided(named(all, "victim"))?.status === "False",
      );
      assert.equal(provided(named(pods, "victim"))?.reason, reason);
      assert.equal(provided(named(pods, "bystander")), undefined);
      await until<Event>({
        client: cluster.admin,
        path: paths.events(namespace),
        check: (events) =>
          events.some(
            (event) => event.reason === reason && event.involvedObject.uid === victim.metadata?.uid,
          ),
      });
      await cluster.admin.delete(paths.pods(namespace, "bystander"));
      await podsUntil(cluster, namespace, (all) => all.length === 1);
    });
  }

  it("claims that a pod is removed: it is found and removed again", async () => {
    const { provider, memory } = faulty("", async () => {});
    const lying: PodProvider = { ...provider, remove: async () => {} };
    await using running = await nodeWith(cluster, lying);
    const namespace = await cluster.plane.createNamespace();
    await createPod(cluster, { namespace, node: running.name });
    await podsUntil(cluster, namespace, ([pod]) => isRunning(pod));
    await cluster.admin.delete(paths.pods(namespace, "web"));
    await podsUntil(cluster, namespace, (pods) => pods.length === 0);
    assert.equal(memory.pods.size, 1);
    // The node may notice the object's end later than this test.
    await eventually(() => running.node.findPod(namespace, "web") === undefined);
    await eventually(() => {
      void running.node.sweep();
      return memory.pods.size === 0;
    });
  });

  it("returns an invalid list: nothing is removed", async () => {
    const { provider, memory } = faulty("", async () => {});
    const lying: PodProvider = { ...provider, list: async () => [{}, null, 7] as never };
    await using running = await nodeWith(cluster, lying);
    const namespace = await cluster.plane.createNamespace();
    await createPod(cluster, { namespace, node: running.name });
    await podsUntil(cluster, namespace, ([pod]) => isRunning(pod));
    await running.node.sweep();
    assert.equal(memory.count("removeUnknown"), 0);
  });

  it("recovers: the condition becomes True", async () => {
    let failures = 1;
    const { provider } = faulty("web", async (uid, callbacks) => {
      if (failures-- > 0) throw new Error("for now");
      callbacks.podStatus({ uid, status: { phase: "Running" } });
    });
    await using running = await nodeWith(cluster, provider, { intervals: { podBackoffMs: 200 } });
    const namespace = await cluster.plane.createNamespace();
    await createPod(cluster, { namespace, node: running.name });
    await podsUntil(cluster, namespace, ([pod]) => provided(pod)?.status === "False");
    await podsUntil(cluster, namespace, ([pod]) => provided(pod)?.status === "True");
  });
});
