import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { silentLogger, systemClock } from "@kip/base";
import { explainNetwork, listCluster } from "@kip/cluster-network";
import { sharedControlPlane } from "@kip/control-plane/testing";
import {
  createApiClient,
  loadKubeConfig,
  namespaced,
  paths,
  type ApiClient,
  type KubeConfig,
} from "@kip/k8s-client";

const rbac = "/apis/rbac.authorization.k8s.io/v1";
const group = "rbac.authorization.k8s.io";

function clientOf(config: KubeConfig): ApiClient {
  const options = { userAgent: "test/1", logger: silentLogger, clock: systemClock };
  return createApiClient(config, options);
}

/** The same cluster, as another user. */
function as(user: string, config: KubeConfig): KubeConfig {
  return {
    ...config,
    credentials: async () => {
      const own = await config.credentials();
      return { ...own, headers: { ...own.headers, "Impersonate-User": user } };
    },
  };
}

describe("listCluster()", () => {
  it("lists what the user may, and says what the answer lacks", async () => {
    await using plane = await sharedControlPlane();
    const config = await loadKubeConfig({ path: plane.kubeconfigPath });
    const admin = clientOf(config);
    const namespace = await plane.createNamespace();
    const create = async (path: string, body: object): Promise<unknown> =>
      await admin.create(path, body);
    await create(paths.services(namespace), {
      metadata: { name: "web" },
      spec: { ports: [{ port: 80 }] },
    });
    await create(paths.pods(namespace), {
      metadata: { name: "a", namespace },
      spec: { nodeName: "kip", containers: [{ name: "c", image: "x" }] },
    });
    await create(namespaced(rbac, "roles")(namespace), {
      metadata: { name: "reader" },
      rules: [{ apiGroups: [""], resources: ["pods", "services"], verbs: ["list"] }],
    });
    await create(namespaced(rbac, "rolebindings")(namespace), {
      metadata: { name: "reader" },
      roleRef: { apiGroup: group, kind: "Role", name: "reader" },
      subjects: [{ apiGroup: group, kind: "User", name: "reader" }],
    });
    const { signal } = new AbortController();
    const options = { namespaces: [namespace], signal };
    const all = await listCluster(admin, options);
    assert.deepEqual(all.unread, []);
    assert.ok(all.services.some(({ metadata }) => metadata.name === "kubernetes"));
    const reader = clientOf(as("reader", config));
    const part = await listCluster(reader, options);
    assert.deepEqual(
      part.services.map(({ metadata }) => metadata.name),
      ["web"],
    );
    const found = explainNetwork(part, { pod: "a", to: "web", namespace });
    assert.equal(found.outcome, "unknown");
    const said = found.sentences.join("\n");
    assert.match(said, /services: only those of .* could be listed/);
    assert.match(said, /networkpolicies.networking.k8s.io: not allowed: policies are not included/);
    reader.close();
    admin.close();
  });
});
