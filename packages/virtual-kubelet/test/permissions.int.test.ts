// A node with only the permissions in docs/virtual-kubelet.md, on a real API server.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { describe, it } from "node:test";
import { systemClock } from "@kip/base";
import { actAs, createApiClient, loadKubeConfig, paths, type ApiClient } from "@kip/k8s-client";
import { MemoryProvider } from "@kip/virtual-kubelet/testing";
import {
  createPod,
  isRunning,
  logger,
  nodeWith,
  podsUntil,
  uniqueNodeName,
  useCluster,
} from "./support/cluster.ts";

const cluster = useCluster();
const docs = path.join(import.meta.dirname, "../../../docs/virtual-kubelet.md");

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
}

/** The required permissions of the table. Those in parentheses are optional. */
async function requiredRules(): Promise<readonly Rule[]> {
  const [, section = ""] = (await readFile(docs, "utf8")).split("\n## Permissions\n");
  const [table = ""] = section.split("\n## ");
  const rows = table.matchAll(/^\| (`[^|]+)\|([^|]+)\|/gm);
  const rules = [...rows].map(([, objects = "", verbs = ""]) => ({
    apiGroups: ["*"],
    resources: [...objects.matchAll(/`([a-z/]+)`/g)].map(([, name = ""]) => name),
    verbs: verbs.replaceAll(/\([^)]*\)/g, "").match(/[a-z]+/g) ?? [],
  }));
  return rules.filter(({ verbs }) => verbs.length > 0);
}

/** A client of a new user with only these permissions. */
async function clientWith(rules: readonly Rule[]): Promise<ApiClient> {
  const user = uniqueNodeName();
  const api = "/apis/rbac.authorization.k8s.io/v1";
  const apiGroup = "rbac.authorization.k8s.io";
  await cluster.admin.create(`${api}/clusterroles`, { metadata: { name: user }, rules });
  await cluster.admin.create(`${api}/clusterrolebindings`, {
    metadata: { name: user },
    roleRef: { apiGroup, kind: "ClusterRole", name: user },
    subjects: [{ apiGroup, kind: "User", name: user }],
  });
  const config = await loadKubeConfig({ path: cluster.plane.kubeconfigPath });
  const options = { userAgent: "test/1", clock: systemClock, logger };
  return createApiClient(actAs(config, { user, groups: [] }), options);
}

describe("a node with the permissions of the documentation", () => {
  it("reports the state of pods that another client changes as soon as they exist", async (t) => {
    const rules = await requiredRules();
    assert.deepEqual(rules.find(({ resources }) => resources.includes("pods"))?.verbs, [
      "list",
      "watch",
      "delete",
    ]);
    const client = await clientWith(rules);
    t.after(() => client.close());
    await using node = await nodeWith(cluster, new MemoryProvider(), { client });
    const namespace = await cluster.plane.createNamespace();
    const label = async (name: string, value: string): Promise<void> => {
      const change = { metadata: { labels: { value } } };
      await cluster.admin.patch(paths.pods(namespace, name), change, "merge");
    };
    const names = Array.from({ length: 30 }, (_, index) => `web-${index}`);
    await Promise.all(
      names.map(async (name) => {
        await createPod(cluster, { namespace, node: node.name, name });
        for (const value of ["a", "b", "c"]) await label(name, value);
      }),
    );
    await podsUntil(cluster, namespace, (pods) => pods.every(isRunning));
    for (const name of names) {
      await cluster.admin.delete(paths.pods(namespace, name), { graceSeconds: 1 });
    }
    await podsUntil(cluster, namespace, (pods) => pods.length === 0);
  });
});
