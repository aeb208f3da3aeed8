// A node that resolves its pods' references with the rights of a kubelet, on a real API server with its Node authorizer.
import assert from "node:assert/strict";
import { once } from "node:events";
import net from "node:net";
import { after, describe, it } from "node:test";
import { portOf, systemClock } from "@kip/base";
import { loadKubeConfig, paths, requestToken, type ApiClient } from "@kip/k8s-client";
import { checkNodeUser, createNodeUserClient, type ResolvedPod } from "@kip/virtual-kubelet";
import { eventually } from "@kip/testing";
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
    const nodeClient = await nodeUser();
    await using _node = await nodeWith(cluster, provider, { nodeName, nodeClient });
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

    await assert.rejects(nodeClient.get(paths.secrets(namespace, "other")), forbidden);
    await assert.rejects(nodeClient.list(paths.secrets(namespace)), forbidden);
    await assert.rejects(nodeClient.list(paths.secrets()), forbidden);
    const others = { serviceAccount: "default", expirationSeconds: 3600, audiences: undefined };
    const pod = { name: "web", uid };
    const token = requestToken(nodeClient, { ...others, namespace: "kube-system", pod });
    await assert.rejects(token, forbidden);
  });
});

describe("checkNodeUser()", () => {
  const check = async (path: string): Promise<readonly string[]> => {
    const errors: string[] = [];
    const config = await loadKubeConfig({ path });
    const options = { nodeName: "checked", userAgent: "kip/test", clock: systemClock, logger };
    const client = createNodeUserClient(config, options);
    const reports = { ...logger, error: (text: string) => void errors.push(text) };
    await checkNodeUser(client, { ...options, logger: reports }).finally(() => client.close());
    return errors;
  };

  it("accepts a user who may act as the node, with NodeRestriction", async () => {
    assert.deepEqual(await check(cluster.plane.kubeconfigPath), []);
    await assert.rejects(cluster.admin.get(paths.nodes("not-checked")), { code: "K8S_NOT_FOUND" });
  });

  it("names the refusal of a user who may not", async () => {
    await assert.rejects(check(cluster.plane.kipKubeconfigPath), {
      code: "VK_NODE_USER_FORBIDDEN",
      message: /system:node:checked/,
    });
  });
});

describe("watches of each object that a node's pods use", () => {
  it("share connections, and lose no change when these are cut", async () => {
    const count = 250;
    const name = uniqueNodeName();
    await using wire = await openWire();
    const provider = new MemoryProvider();
    const common = { userAgent: "kip/test", clock: systemClock, logger };
    const nodeClient = createNodeUserClient(wire.config, { nodeName: name, ...common });
    await using _node = await nodeWith(cluster, provider, { nodeName: name, nodeClient });
    const namespace = await cluster.plane.createNamespace();
    const names = Array.from({ length: count }, (_, index) => `secret-${index}`);
    const create = async (secret: string, value: string): Promise<unknown> =>
      await cluster.admin.create(paths.secrets(namespace), {
        metadata: { name: secret },
        stringData: { [secret]: value },
      });
    await Promise.all(names.map(async (secret) => await create(secret, "before")));
    const sources = names.map((secret) => ({ secret: { name: secret } }));
    const { metadata } = await createPod(cluster, {
      namespace,
      node: name,
      spec: { volumes: [{ name: "v", projected: { sources } }] },
    });
    const content = (secret: string): string => {
      const files = provider.pods.get(metadata.uid ?? "")?.files.get("v") ?? [];
      return String(files.find(({ path }) => path === secret)?.data);
    };
    const patch = async (secret: string, value: string): Promise<unknown> => {
      const change = { stringData: { [secret]: value } };
      return await cluster.admin.patch(paths.secrets(namespace, secret), change, "merge");
    };
    await podsUntil(cluster, namespace, ([each]) => isRunning(each));
    const last = `secret-${count - 1}`;
    await patch(last, "changed");
    await eventually(() => content(last) === "changed");
    assert.ok(wire.open <= 30, `${wire.open} connections; 16 are those of requests`);

    wire.cut();
    await patch("secret-0", "changed while it was cut");
    await cluster.admin.delete(paths.secrets(namespace, "secret-1"));
    await create("secret-1", "made again");
    wire.mend();
    await eventually(() => content("secret-0") === "changed while it was cut");
    await eventually(() => content("secret-1") === "made again");
    assert.equal(content("secret-2"), "before");
    nodeClient.close();
  });
});

/** A connection to the API server that can be cut. */
async function openWire() {
  const config = await loadKubeConfig({ path: cluster.plane.kubeconfigPath });
  const target = new URL(config.server);
  const sockets = new Set<net.Socket>();
  let isCut = false;
  const server = net.createServer((inner) => {
    if (isCut) {
      inner.destroy();
      return;
    }
    const outer = net.connect(Number(target.port), target.hostname);
    sockets.add(inner);
    inner
      .on("error", () => {})
      .on("close", () => {
        sockets.delete(inner);
        outer.destroy();
      });
    outer.on("error", () => {}).on("close", () => inner.destroy());
    inner.pipe(outer).pipe(inner);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const cut = (): void => {
    isCut = true;
    for (const socket of sockets) socket.destroy();
  };
  return {
    config: { ...config, server: `https://127.0.0.1:${portOf(server)}` },
    /** Number of open connections. */
    get open() {
      return sockets.size;
    },
    cut,
    mend: () => {
      isCut = false;
    },
    [Symbol.asyncDispose]: async () => {
      cut();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const forbidden = { code: "K8S_FORBIDDEN" };
