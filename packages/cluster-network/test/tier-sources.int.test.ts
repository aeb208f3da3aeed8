import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { installedTiers, NetworkViews, watchClusterNetwork } from "@kip/cluster-network";
import { clusterWide, createEventRecorder, paths, type KubeObject } from "@kip/k8s-client";
import { bucketCount, limits } from "@kip/network-view";
import { eventually } from "@kip/testing";
import { openTestCluster } from "./test-cluster.ts";

const group = "policy.networking.k8s.io";
const resource = "adminnetworkpolicies";

/** As small a definition as there can be. */
const definition = {
  metadata: {
    name: `${resource}.${group}`,
    annotations: { "api-approved.kubernetes.io": "unapproved, a test" },
  },
  spec: {
    group,
    scope: "Cluster",
    names: { plural: resource, kind: "AdminNetworkPolicy" },
    versions: [
      {
        name: "v1alpha1",
        served: true,
        storage: true,
        schema: {
          openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
        },
      },
    ],
  },
};

describe("watchClusterNetwork(), of policies of administrators", () => {
  it("follows their API as it is installed and removed", async () => {
    await using cluster = await openTestCluster();
    const { client, options } = cluster;
    const { signal } = options;
    const views = new NetworkViews({ node: { name: "kip" }, ...options });
    const watch = watchClusterNetwork({ client, views, ...options });
    await watch.synced(signal);
    assert.deepEqual(await installedTiers(client, signal), []);
    const seen = async (what: string, check: () => boolean): Promise<void> =>
      await eventually(check, { what, limitMs: 60_000, intervalMs: 50 });
    const policies = clusterWide(`/apis/${group}/v1alpha1`, resource);
    for (let round = 0; round < 2; round++) {
      await client.create(paths.customResourceDefinitions(), definition);
      await eventually(async () => (await installedTiers(client, signal)).length === 1, {
        what: "the API",
        limitMs: 60_000,
        intervalMs: 100,
      });
      const body = {
        apiVersion: `${group}/v1alpha1`,
        kind: "AdminNetworkPolicy",
        metadata: { name: "deny" },
        spec: { priority: 1, subject: { namespaces: {} }, ingress: [{ action: "Deny" }] },
      };
      await eventually(
        async () =>
          await client
            .create(policies(), body)
            .then(() => true)
            .catch(() => false),
        { what: "a policy", limitMs: 60_000, intervalMs: 100 },
      );
      await seen("the policy", () => views.policies.hasTiers);
      await watch.synced(signal);
      await client.delete(paths.customResourceDefinitions(definition.metadata.name));
      await seen("no policy", () => !views.policies.hasTiers);
      await eventually(async () => (await installedTiers(client, signal)).length === 0, {
        what: "no API",
        limitMs: 60_000,
        intervalMs: 100,
      });
    }
  });

  it("gives one that chooses more than a cell takes an event, which the API server accepts", async () => {
    await using cluster = await openTestCluster();
    const { client, options } = cluster;
    const { signal } = options;
    const events = createEventRecorder({ client, component: "kubelet", host: "kip", ...options });
    const views = new NetworkViews({ node: { name: "kip" }, events, ...options });
    const metadata = { uid: "any", resourceVersion: "1" };
    views.setNamespace({ metadata: { ...metadata, name: "default", namespace: "" } });
    const ofPod = { ...metadata, name: "web", namespace: "default" };
    views.setPod({ metadata: ofPod, spec: { containers: [] }, status: { podIP: "10.0.0.1" } });
    // More than one rule of a cell may have.
    const networks = Array.from(
      { length: limits.rules + 1 },
      (_, i) => `10.${i >> 8}.${i & 255}.0/24`,
    );
    const spec = {
      priority: 1,
      subject: { namespaces: {} },
      egress: [{ action: "Allow", to: [{ networks }] }],
    };
    views.setTierPolicy("AdminNetworkPolicy", {
      apiVersion: `${group}/v1alpha1`,
      metadata: { name: "wide", uid: "of-wide" },
      spec,
    });
    const sums = Array<number>(bucketCount).fill(0);
    using subscription = views.subscribe({
      podUid: "any",
      namespace: "default",
      sums,
      knowsTiers: true,
    });
    await subscription.next(signal);
    await events.flush();
    const { items } = await client.list<KubeObject & { reason?: string }>(paths.events("default"), {
      query: { fieldSelector: "involvedObject.uid=of-wide" },
    });
    assert.deepEqual(
      items.map(({ reason }) => reason),
      ["NetworkTooLarge"],
    );
  });
});
