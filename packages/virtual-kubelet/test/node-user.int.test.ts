// A node that looks up what its pods refer to with the rights of a kubelet, with a real API server and its Node authorizer.
import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { systemClock } from "@kip/base";
import { loadKubeConfig, paths, requestToken, type ApiClient } from "@kip/k8s-client";
import { createNodeUserClient, type ResolvedPod } from "@kip/virtual-kubelet";
import { MemoryProvider } from "@kip/virtual-kubelet/testing";
import {
  createPod,
  isRunning,
  logger,
  nodeWith,
  podsUntil,
  uniqueNodeName,
  useCluster,
  waitForCall,
} from "./support/cluster.ts";

const cluster = useCluster();
const nodeName = uniqueNodeName();

describe("a client that acts as the node", () => {
  let client: ApiClient | undefined;
  after(() => client?.close());

  const nodeUser = async (): Promise<ApiClient> => {
    const config = await loadKubeConfig({ path: cluster.plane.kubeconfigPath });
    const common = { userAgent: "kip/test", clock: systemClock, logger };
    client ??= createNodeUserClient(config, { nodeName, ...common });
    return client;
  };

  const createSecret = async (namespace: string, name: string, value: string): Promise<void> => {
    const stringData = { key: value };
    await cluster.admin.create(paths.secrets(namespace), { metadata: { name }, stringData });
  };

  it("gets what the node's pods refer to, also changed, and their tokens", async () => {
    const provider = new MemoryProvider();
    const referenceClient = await nodeUser();
    await using _node = await nodeWith(cluster, provider, { nodeName, referenceClient });
    const namespace = await cluster.plane.createNamespace();
    await createSecret(namespace, "named", "before");
    await createSecret(namespace, "other", "not for this node");
    const { metadata } = await createPod(cluster, {
      namespace,
      node: nodeName,
      spec: { volumes: [{ name: "v", secret: { secretName: "named" } }] },
      container: {
        env: [{ name: "E", valueFrom: { secretKeyRef: { name: "named", key: "key" } } }],
      },
    });
    const uid = metadata.uid ?? "";
    const applied = (): ResolvedPod | undefined => provider.pods.get(uid);
    const content = (): string => String(applied()?.files.get("v")?.[0]?.data);
    await podsUntil(cluster, namespace, ([each]) => isRunning(each));
    const variable = { name: "E", value: "before" };
    const env = applied()?.env.get("main");
    assert.deepEqual(
      env?.find(({ name }) => name === "E"),
      variable,
    );
    assert.equal(content(), "before");
    assert.ok(applied()?.refreshAt, "it has a token");
    const changed = waitForCall(provider, "apply");
    const change = { stringData: { key: "after" } };
    await cluster.admin.patch(paths.secrets(namespace, "named"), change, "merge");
    await changed;
    assert.equal(content(), "after");

    await assert.rejects(referenceClient.get(paths.secrets(namespace, "other")), forbidden);
    await assert.rejects(referenceClient.list(paths.secrets(namespace)), forbidden);
    await assert.rejects(referenceClient.list(paths.secrets()), forbidden);
    const others = { serviceAccount: "default", expirationSeconds: 3600, audiences: undefined };
    const pod = { name: "web", uid };
    const token = requestToken(referenceClient, { ...others, namespace: "kube-system", pod });
    await assert.rejects(token, forbidden);
  });
});

const forbidden = { code: "K8S_FORBIDDEN" };
