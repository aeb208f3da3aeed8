import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, describe, it } from "node:test";
import { createLogger, hasCode, silentLogger, systemClock } from "@kip/base";
import { sharedControlPlane, type SharedControlPlane } from "@kip/control-plane/testing";
import { createApiClient, loadKubeConfig, paths, type ApiClient } from "@kip/k8s-client";
import type { Event, Lease, Node, Pod } from "@kip/k8s-types";
import { startNode, type NodeOptions, type RunningNode } from "@kip/virtual-kubelet";
import { MemoryProvider } from "@kip/virtual-kubelet/testing";
import { until } from "./eventually.ts";

const logger =
  process.env["KIP_TEST_LOG"] === undefined ? silentLogger : createLogger({ level: "debug" });

let plane: SharedControlPlane;
let admin: ApiClient;
/** As user kip, who may do only what a virtual kubelet needs. */
let client: ApiClient;

before(
  async () => {
    plane = await sharedControlPlane();
    const connect = async (path: string): Promise<ApiClient> =>
      createApiClient(await loadKubeConfig({ path }), {
        userAgent: "test/1",
        logger,
        clock: systemClock,
      });
    admin = await connect(plane.kubeconfigPath);
    client = await connect(plane.kipKubeconfigPath);
  },
  { timeout: 900_000 },
);

after(async () => {
  client?.close();
  admin?.close();
  await plane?.[Symbol.asyncDispose]();
});

/** A node of the test's own, gone with the test. */
async function nodeWith(
  provider: MemoryProvider,
  options: Partial<NodeOptions> = {},
): Promise<{ node: RunningNode; name: string } & AsyncDisposable> {
  const name = options.nodeName ?? `vk-${randomBytes(3).toString("hex")}`;
  const node = await startNode({
    client,
    provider,
    clock: systemClock,
    logger,
    ...options,
    nodeName: name,
  });
  return {
    node,
    name,
    [Symbol.asyncDispose]: async () => {
      await node[Symbol.asyncDispose]();
      await admin.delete(paths.nodes(name)).catch(() => {});
    },
  };
}

interface PodWish {
  readonly namespace: string;
  readonly node: string;
  readonly name?: string;
  readonly spec?: Partial<NonNullable<Pod["spec"]>>;
  readonly container?: Partial<NonNullable<Pod["spec"]>["containers"][number]>;
}

async function createPod({ namespace, node, name = "web", ...wish }: PodWish): Promise<Pod> {
  return admin.create<Pod>(paths.pods(namespace), {
    metadata: { name },
    spec: {
      nodeName: node,
      tolerations: [{ operator: "Exists" }],
      containers: [{ name: "main", image: "example.test/web:1", ...wish.container }],
      ...wish.spec,
    },
  });
}

async function podUntil(namespace: string, check: (pods: readonly Pod[]) => boolean) {
  return until<Pod>({ client: admin, path: paths.pods(namespace), check });
}

const isRunning = (pod: Pod | undefined): boolean =>
  pod?.status?.phase === "Running" &&
  pod.status.conditions?.some(({ type, status }) => type === "Ready" && status === "True") === true;

describe("startNode()", () => {
  it("registers the node with its facts, becomes Ready and keeps a lease (E1, E2, N2)", async () => {
    const provider = new MemoryProvider();
    provider.facts = { ...provider.facts, labels: { zone: "a" }, annotations: { note: "x" } };
    await using running = await nodeWith(provider, {
      intervals: { leaseMs: 300 },
      kubeletPort: 10250,
    });
    const node = await admin.get<Node>(paths.nodes(running.name));
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
      client: admin,
      path: paths.leases("kube-node-lease"),
      fieldSelector: `metadata.name=${running.name}`,
      check: ([held]) => times.add(String(held?.spec?.renewTime)).size > 3,
    });
    assert.equal(lease?.spec?.holderIdentity, running.name);
    assert.deepEqual(lease?.metadata?.ownerReferences, [
      { apiVersion: "v1", kind: "Node", name: running.name, uid: node.metadata?.uid },
    ]);
  });

  it("keeps what others put on the node, and drops what the provider dropped (N6, N7)", async () => {
    const provider = new MemoryProvider();
    provider.facts = { ...provider.facts, annotations: { mine: "1", old: "1" } };
    await using running = await nodeWith(provider);
    const condition = { type: "Custom", status: "True", reason: "R", message: "m" };
    await admin.patch(
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
      client: admin,
      path: paths.nodes(),
      fieldSelector: `metadata.name=${running.name}`,
      check: ([each]) => each?.metadata?.annotations?.["mine"] === "2",
    });
    assert.equal(node?.metadata?.annotations?.["theirs"], "1");
    assert.equal(node?.metadata?.annotations?.["old"], undefined);
    assert.deepEqual(node?.status?.capacity, { cpu: "7", pods: "10" });
    assert.equal(node?.status?.conditions?.length, 6);
  });

  it("says Ready=False with the reason while the provider's ping fails, and recovers", async () => {
    const provider = new MemoryProvider();
    await using running = await nodeWith(provider, { intervals: { leaseMs: 200 } });
    provider.failures.ping.push(...Array.from({ length: 3 }, () => new Error("no cloud today")));
    const readyIs = (wanted: string) => (nodes: readonly Node[]) =>
      nodes[0]?.status?.conditions?.find(({ type }) => type === "Ready")?.status === wanted;
    const watch = { client: admin, path: paths.nodes() };
    const fieldSelector = `metadata.name=${running.name}`;
    const [node] = await until<Node>({ ...watch, fieldSelector, check: readyIs("False") });
    const ready = node?.status?.conditions?.find(({ type }) => type === "Ready");
    assert.equal(ready?.reason, "ProviderNotReady");
    assert.match(ready?.message ?? "", /no cloud today/);
    await until<Node>({ ...watch, fieldSelector, check: readyIs("True") });
  });

  it("registers again when the Node object is deleted, and corrects the lease's owner (K10)", async () => {
    const provider = new MemoryProvider();
    await using running = await nodeWith(provider, { intervals: { leaseMs: 300 } });
    const first = await admin.get<Node>(paths.nodes(running.name));
    await admin.delete(paths.nodes(running.name));
    const [node] = await until<Node>({
      client: admin,
      path: paths.nodes(),
      fieldSelector: `metadata.name=${running.name}`,
      check: ([each]) =>
        each !== undefined &&
        each.metadata?.uid !== first.metadata?.uid &&
        each.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True"),
    });
    await until<Lease>({
      client: admin,
      path: paths.leases("kube-node-lease"),
      fieldSelector: `metadata.name=${running.name}`,
      check: ([lease]) => lease?.metadata?.ownerReferences?.[0]?.uid === node?.metadata?.uid,
    });
  });
});

describe("pods of a node", () => {
  it("runs a pod, writes its status once, and removes it with its object (L1, P4, P7)", async () => {
    const provider = new MemoryProvider();
    await using running = await nodeWith(provider);
    const namespace = await plane.createNamespace();
    const { metadata } = await createPod({ namespace, node: running.name });
    const uid = metadata?.uid ?? "";
    const [pod] = await podUntil(namespace, ([each]) => isRunning(each));
    assert.equal(pod?.status?.podIP, "198.51.100.7");
    assert.equal(pod?.status?.hostIP, "192.0.2.1");
    assert.equal(pod?.status?.qosClass, "BestEffort");
    assert.equal(provider.count("apply", uid), 1);
    await admin.patch(
      paths.pods(namespace, "web", "status"),
      { status: { conditions: [{ type: "x", status: "True" }] } },
      "strategic",
    );
    await podUntil(namespace, ([each]) => each?.status?.conditions?.length === 6);
    assert.equal(provider.count("apply", uid), 1, "a change of status alone is no change (P3)");
    await admin.patch(paths.pods(namespace, "web"), { metadata: { labels: { a: "b" } } }, "merge");
    await admin.delete(paths.pods(namespace, "web"));
    await podUntil(namespace, (pods) => pods.length === 0);
    assert.equal(provider.count("remove", uid), 1);
    assert.equal(provider.pods.size, 0);
  });

  it("deletes the object although the provider does not know the pod (L2), and repeats a failing removal (L3)", async () => {
    const provider = new MemoryProvider();
    await using running = await nodeWith(provider, { intervals: { podBackoffMs: 20 } });
    const namespace = await plane.createNamespace();
    const lost = await createPod({ namespace, node: running.name, name: "lost" });
    const stuck = await createPod({ namespace, node: running.name, name: "stuck" });
    await podUntil(namespace, (pods) => pods.length === 2 && pods.every(isRunning));
    provider.pods.delete(lost.metadata?.uid ?? "");
    await admin.delete(paths.pods(namespace, "lost"));
    await podUntil(namespace, (pods) => pods.length === 1);
    provider.failures.remove.push(new Error("busy"), new Error("busy"));
    await admin.delete(paths.pods(namespace, "stuck"));
    await podUntil(namespace, (pods) => pods.length === 0);
    assert.equal(provider.count("remove", stuck.metadata?.uid), 3);
  });

  it("hands changes over (P2, P6, L8)", async () => {
    const provider = new MemoryProvider();
    await using running = await nodeWith(provider);
    const namespace = await plane.createNamespace();
    const { metadata } = await createPod({ namespace, node: running.name });
    const uid = metadata?.uid ?? "";
    await podUntil(namespace, ([each]) => isRunning(each));
    const applied = waitForCall(provider, "apply");
    await admin.patch(
      paths.pods(namespace, "web"),
      { spec: { containers: [{ name: "main", image: "example.test/web:2" }] } },
      "strategic",
    );
    await applied;
    await podUntil(namespace, ([pod]) => observed(pod) >= (pod?.metadata?.generation ?? 1));
    assert.equal(provider.pods.get(uid)?.pod.spec?.containers[0]?.image, "example.test/web:2");
  });

  it("waits for a missing Secret, says so, and starts as soon as it is there (K7, K9)", async () => {
    const provider = new MemoryProvider();
    await using running = await nodeWith(provider, { intervals: { podBackoffMs: 600_000 } });
    const namespace = await plane.createNamespace();
    const secretKeyRef = { name: "token", key: "value" };
    const { metadata } = await createPod({
      namespace,
      node: running.name,
      container: { env: [{ name: "TOKEN", valueFrom: { secretKeyRef } }] },
    });
    const [pod] = await podUntil(
      namespace,
      ([each]) => each?.status?.containerStatuses?.[0]?.state?.waiting !== undefined,
    );
    const waiting = pod?.status?.containerStatuses?.[0]?.state?.waiting;
    assert.equal(waiting?.reason, "CreateContainerConfigError");
    assert.equal(waiting?.message, 'secret "token" not found');
    await until<Event>({
      client: admin,
      path: paths.events(namespace),
      check: (events) =>
        events.some(
          ({ reason, involvedObject }) =>
            reason === "MandatorySecretNotFound" && involvedObject.uid === metadata?.uid,
        ),
    });
    assert.equal(provider.pods.size, 0);
    await admin.create(paths.secrets(namespace), {
      metadata: { name: "token" },
      stringData: { value: "s3cret" },
    });
    await podUntil(namespace, ([each]) => isRunning(each));
    const env = provider.pods.get(metadata?.uid ?? "")?.env.get("main");
    assert.deepEqual(
      env?.find(({ name }) => name === "TOKEN"),
      { name: "TOKEN", value: "s3cret" },
    );
    assert.ok(env?.some(({ name }) => name === "KUBERNETES_SERVICE_HOST"));
  });

  it("gives a pod its token and the cluster's CA, and follows a changed ConfigMap", async () => {
    const provider = new MemoryProvider();
    await using running = await nodeWith(provider);
    const namespace = await plane.createNamespace();
    await admin.create(paths.configMaps(namespace), {
      metadata: { name: "settings" },
      data: { color: "red" },
    });
    const { metadata } = await createPod({
      namespace,
      node: running.name,
      spec: { volumes: [{ name: "settings", configMap: { name: "settings" } }] },
    });
    const uid = metadata?.uid ?? "";
    await podUntil(namespace, ([each]) => isRunning(each));
    const files = provider.pods.get(uid)?.files;
    const text = (volume: string | undefined, path: string): string | undefined => {
      const file = provider.pods
        .get(uid)
        ?.files.get(volume ?? "")
        ?.find((each) => each.path === path);
      return file && Buffer.from(file.data).toString();
    };
    const projected = [...(files?.keys() ?? [])].find((name) => name.startsWith("kube-api-access"));
    assert.equal(text(projected, "namespace"), namespace);
    assert.match(text(projected, "ca.crt") ?? "", /BEGIN CERTIFICATE/);
    assert.match(text(projected, "token") ?? "", /^ey/);
    assert.ok((provider.pods.get(uid)?.refreshAt ?? 0) > Date.now());
    assert.equal(text("settings", "color"), "red");
    const applied = waitForCall(provider, "apply");
    await admin.patch(
      paths.configMaps(namespace, "settings"),
      { data: { color: "blue" } },
      "merge",
    );
    await applied;
    assert.equal(text("settings", "color"), "blue");
  });

  it("gives a recreated pod of the same name an actor of its own (P12)", async () => {
    const provider = new MemoryProvider();
    await using running = await nodeWith(provider);
    const namespace = await plane.createNamespace();
    const first = await createPod({ namespace, node: running.name });
    await podUntil(namespace, ([each]) => isRunning(each));
    await admin.delete(paths.pods(namespace, "web"), { graceSeconds: 0 });
    const second = await createPod({ namespace, node: running.name });
    await podUntil(namespace, ([each]) => isRunning(each));
    assert.notEqual(first.metadata?.uid, second.metadata?.uid);
    await eventuallyTrue(() => provider.pods.size === 1);
    assert.ok(provider.pods.has(second.metadata?.uid ?? ""));
  });

  it("stops a pod in time when its deletion is forced meanwhile (K5)", async () => {
    const provider = new MemoryProvider();
    await using running = await nodeWith(provider);
    const namespace = await plane.createNamespace();
    const { metadata } = await createPod({ namespace, node: running.name });
    await podUntil(namespace, ([each]) => isRunning(each));
    const held = Promise.withResolvers<void>();
    provider.gate = ({ call }) => (call === "remove" ? held.promise : Promise.resolve());
    const removing = waitForCall(provider, "remove");
    await admin.delete(paths.pods(namespace, "web"));
    await removing;
    await admin.delete(paths.pods(namespace, "web"), { graceSeconds: 0 });
    await eventuallyTrue(() => provider.pods.size === 0);
    held.resolve();
    assert.equal(provider.count("removeUnknown", metadata?.uid), 1);
  });

  it("fails a pod that can never run, with the provider's reason", async () => {
    const { KipError } = await import("@kip/base");
    const provider = new MemoryProvider();
    provider.failures.apply.push(
      new KipError("VK_INVALID_POD", "Cannot run it: too big", { facts: { reason: "OutOfcpu" } }),
    );
    await using running = await nodeWith(provider);
    const namespace = await plane.createNamespace();
    await createPod({ namespace, node: running.name });
    const [pod] = await podUntil(namespace, ([each]) => each?.status?.phase === "Failed");
    assert.equal(pod?.status?.reason, "OutOfcpu");
    assert.equal(pod?.status?.message, "Cannot run it: too big");
  });

  it("repeats what the provider refuses for now, and one pod's trouble is not another's", async () => {
    const provider = new MemoryProvider();
    provider.failures.apply.push(new Error("cloud says later"));
    await using running = await nodeWith(provider, { intervals: { podBackoffMs: 3000 } });
    const namespace = await plane.createNamespace();
    await createPod({ namespace, node: running.name, name: "unlucky" });
    await podUntil(namespace, ([pod]) => pod?.status?.reason === "ProviderFailed");
    await createPod({ namespace, node: running.name, name: "lucky" });
    await podUntil(namespace, (pods) =>
      pods.some((pod) => pod.metadata?.name === "lucky" && isRunning(pod)),
    );
    const pods = await podUntil(namespace, (all) => all.length === 2 && all.every(isRunning));
    assert.ok(pods.every(({ status }) => status?.reason === undefined));
    assert.equal(provider.calls.length, 3);
  });

  it("leaves running and finished pods alone when it starts again, and removes strangers (L4, L6, L7)", async () => {
    const provider = new MemoryProvider();
    const namespace = await plane.createNamespace();
    const nodeName = `vk-${randomBytes(3).toString("hex")}`;
    const done = { name: "done", namespace, node: nodeName };
    const first = await nodeWith(provider, { nodeName });
    const finished = await createPod(done);
    await createPod({ namespace, node: nodeName });
    await podUntil(namespace, (pods) => pods.length === 2 && pods.every(isRunning));
    provider.report(finished.metadata?.uid ?? "", "Succeeded");
    const before = await podUntil(namespace, (pods) =>
      pods.some(({ status }) => status?.phase === "Succeeded"),
    );
    await first.node[Symbol.asyncDispose]();
    provider.calls.length = 0;
    const stranger = { metadata: { uid: "stranger", name: "stranger", namespace } };
    provider.pods.set("stranger", {
      pod: stranger,
      env: new Map(),
      lateEnv: new Map(),
      files: new Map(),
      pullSecrets: [],
    });
    await using _second = await nodeWith(provider, { nodeName });
    assert.equal(provider.count("removeUnknown"), 1);
    assert.ok(!provider.pods.has("stranger"));
    await eventuallyTrue(() => provider.count("apply") === 1);
    assert.equal(provider.count("apply", finished.metadata?.uid), 0);
    assert.equal(provider.count("remove"), 0);
    const afterwards = await podUntil(namespace, (pods) => pods.length === 2);
    const versions = (pods: readonly Pod[]): (string | undefined)[] =>
      pods
        .map(({ metadata }) => metadata?.resourceVersion)
        .sort((a = "", b = "") => a.localeCompare(b));
    assert.deepEqual(versions(afterwards), versions(before), "nothing was written");
  });

  it("never removes a pod because a list failed", async () => {
    const provider = new MemoryProvider();
    await using running = await nodeWith(provider);
    const namespace = await plane.createNamespace();
    await createPod({ namespace, node: running.name });
    await podUntil(namespace, ([each]) => isRunning(each));
    provider.failures.list.push(new Error("cloud away"));
    await running.node.sweep();
    assert.equal(provider.count("removeUnknown"), 0);
    provider.pods.clear();
    const applied = waitForCall(provider, "apply");
    await running.node.sweep();
    await applied; // what the provider lost, it is told again
  });

  it("completes a deletion that began while nobody was there (L5)", async () => {
    const provider = new MemoryProvider();
    const namespace = await plane.createNamespace();
    const nodeName = `vk-${randomBytes(3).toString("hex")}`;
    const first = await nodeWith(provider, { nodeName });
    await createPod({ namespace, node: nodeName });
    await podUntil(namespace, ([each]) => isRunning(each));
    await first.node[Symbol.asyncDispose]();
    await admin.delete(paths.pods(namespace, "web"));
    await using _second = await nodeWith(provider, { nodeName });
    await podUntil(namespace, (pods) => pods.length === 0);
    assert.equal(provider.pods.size, 0);
  });
});

describe("ApiClient errors on the real server", () => {
  it("carries a code for each refusal", async () => {
    const missing = admin.get(paths.pods("default", "nobody"));
    await assert.rejects(missing, (error) => hasCode(error, "K8S_NOT_FOUND"));
    const again = admin.create(paths.namespaces(), { metadata: { name: "default" } });
    await assert.rejects(again, (error) => hasCode(error, "K8S_ALREADY_EXISTS"));
    const invalid = admin.create(paths.pods("default"), { metadata: { name: "x" }, spec: {} });
    await assert.rejects(invalid, (error) => hasCode(error, "K8S_INVALID"));
    const forbidden = client.create(paths.namespaces(), { metadata: { name: "x" } });
    await assert.rejects(forbidden, (error) => hasCode(error, "K8S_FORBIDDEN"));
  });
});

function observed(pod: Pod | undefined): number {
  // Newer than the types we have.
  const status = (pod?.status ?? {}) as { readonly observedGeneration?: number };
  return status.observedGeneration ?? 0;
}

/** Resolves after the next call of that name has taken effect. */
async function waitForCall(provider: MemoryProvider, call: string): Promise<void> {
  const seen = Promise.withResolvers<void>();
  const before = provider.gate;
  provider.gate = async (each) => {
    if (each.call === call) setImmediate(seen.resolve);
    await before(each);
  };
  await seen.promise;
  provider.gate = before;
}

/** For facts inside this process that nothing announces; the API's are watched. */
async function eventuallyTrue(check: () => boolean): Promise<void> {
  for (const end = Date.now() + 30_000; !check();) {
    if (Date.now() > end) throw new Error(`Not so within 30 s: ${check.toString()}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
