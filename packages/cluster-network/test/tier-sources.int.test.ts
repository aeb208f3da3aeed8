import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { silentLogger, systemClock } from "@kip/base";
import { installedTiers, NetworkViews, watchClusterNetwork } from "@kip/cluster-network";
import { sharedControlPlane } from "@kip/control-plane/testing";
import { clusterWide, createApiClient, loadKubeConfig, paths } from "@kip/k8s-client";
import { eventually } from "@kip/testing";

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
    await using plane = await sharedControlPlane();
    const client = createApiClient(await loadKubeConfig({ path: plane.kubeconfigPath }), {
      userAgent: "test/1",
      logger: silentLogger,
      clock: systemClock,
    });
    const stop = new AbortController();
    const options = { clock: systemClock, signal: stop.signal, logger: silentLogger };
    const views = new NetworkViews({ node: { name: "kip" }, ...options });
    const watch = watchClusterNetwork({ client, views, ...options });
    await watch.synced(stop.signal);
    assert.deepEqual(await installedTiers(client, stop.signal), []);
    const seen = async (what: string, check: () => boolean): Promise<void> =>
      await eventually(check, { what, limitMs: 60_000, intervalMs: 50 });
    const policies = clusterWide(`/apis/${group}/v1alpha1`, resource);
    for (let round = 0; round < 2; round++) {
      await client.create(paths.customResourceDefinitions(), definition);
      await eventually(async () => (await installedTiers(client, stop.signal)).length === 1, {
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
      await watch.synced(stop.signal);
      await client.delete(paths.customResourceDefinitions(definition.metadata.name));
      await seen("no policy", () => !views.policies.hasTiers);
      await eventually(async () => (await installedTiers(client, stop.signal)).length === 0, {
        what: "no API",
        limitMs: 60_000,
        intervalMs: 100,
      });
    }
    stop.abort();
    client.close();
  });
});
