import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { paths, type ApiClient } from "@kip/k8s-client";
import type { Event, Node, Pod } from "@kip/k8s-types";
import { until } from "./until.ts";

/** Options of {@link nodeSuite}. */
export interface NodeSuiteOptions {
  /** Called once before the tests. Returns a client that may create pods and use the node's proxy. */
  readonly setUp: () => Promise<{
    readonly client: ApiClient;
    readonly nodeName: string;
    /** Namespace for the suite's pods. */
    readonly namespace: string;
  }>;
  /** Called once after the tests. */
  readonly tearDown?: () => Promise<void>;
  /** Why a test does not apply to this provider, by the test's name. */
  readonly skip?: (name: string) => string | undefined;
}

type Target = Awaited<ReturnType<NodeSuiteOptions["setUp"]>>;
type Test = (target: Target) => Promise<void>;

/**
 * Registers end-to-end tests of a node with node:test, for any provider: the node's kubelet API through the API server, the
 * life of pods, and missing references.
 */
export function nodeSuite(options: NodeSuiteOptions): void {
  describe("a virtual node, end to end", () => {
    let target: Target | undefined;
    before(async () => {
      target = await options.setUp();
      const { client, nodeName } = target;
      await until<Node>({
        client,
        path: paths.nodes(),
        fieldSelector: `metadata.name=${nodeName}`,
        check: ([node]) =>
          node?.status?.conditions?.some(
            ({ type, status }) => type === "Ready" && status === "True",
          ),
      });
    });
    after(() => options.tearDown?.());
    for (const [name, test] of Object.entries(tests)) {
      const reason = options.skip?.(name);
      it(name, { skip: reason ?? false }, async () => {
        assert.ok(target, "the suite has been set up");
        await test(target);
      });
    }
  });
}

const tests: Readonly<Record<string, Test>> = {
  "lists its pods, and only its own, at /pods (K1)": async (target) => {
    const pod = await startPod(target, "listed");
    const { items } = await proxy<{ readonly items: readonly Pod[] }>(target, "pods");
    assert.ok(items.some(({ metadata }) => metadata.uid === pod.metadata.uid));
    assert.ok(items.every(({ spec }) => spec?.nodeName === target.nodeName));
    await remove(target, pod);
  },
  "reports the usage of its pods at /stats/summary (K2)": async (target) => {
    const pod = await startPod(target, "counted", 3);
    const summary = await proxy<{
      readonly node: { readonly nodeName: string };
      readonly pods: readonly {
        readonly podRef: { readonly uid: string };
        readonly containers: readonly unknown[];
      }[];
    }>(target, "stats/summary");
    assert.equal(summary.node.nodeName, target.nodeName);
    const stats = summary.pods.find(({ podRef }) => podRef.uid === pod.metadata.uid);
    assert.equal(stats?.containers.length, 3);
    await remove(target, pod);
  },
  "reports the usage of its pods at /metrics/resource (K3)": async (target) => {
    const pod = await startPod(target, "measured", 3);
    const name = pod.metadata.name;
    const text = await proxyText(target, "metrics/resource");
    const lines = text.split("\n").filter((line) => line.includes(`pod="${name}"`));
    assert.equal(lines.filter((line) => line.startsWith("pod_cpu_usage_seconds_total{")).length, 1);
    const containers = lines.filter((line) =>
      line.startsWith("container_cpu_usage_seconds_total{"),
    );
    assert.equal(containers.length, 3);
    await remove(target, pod);
  },
  "removes a pod within its grace period (K4)": async (target) => {
    const pod = await startPod(target, "graceful");
    assert.ok((await runningUids(target)).includes(pod.metadata.uid));
    const { client, namespace } = target;
    const deleted = await client.delete<Pod>(paths.pods(namespace, pod.metadata.name));
    assert.ok((deleted.metadata.deletionGracePeriodSeconds ?? 0) > 0);
    await gone(target, pod);
    assert.ok(!(await runningUids(target)).includes(pod.metadata.uid));
  },
  "removes a pod whose deletion is forced (K5)": async (target) => {
    const pod = await startPod(target, "forced");
    await remove(target, pod);
    for (const end = Date.now() + 30_000; ;) {
      if (!(await runningUids(target)).includes(pod.metadata.uid)) break;
      assert.ok(Date.now() < end, "the provider still runs it after 30 s");
      // There is no event for a pod that is gone from the API.
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  },
  "starts a pod without an optional Secret (K6)": (target) => missing(target, "Secret", true),
  "does not start a pod without a mandatory Secret (K7)": (target) =>
    missing(target, "Secret", false),
  "starts a pod without an optional ConfigMap (K8)": (target) => missing(target, "ConfigMap", true),
  "does not start a pod without a mandatory ConfigMap (K9)": (target) =>
    missing(target, "ConfigMap", false),
};

async function missing(
  target: Target,
  kind: "Secret" | "ConfigMap",
  optional: boolean,
): Promise<void> {
  const selector = { name: "does-not-exist", key: "key", optional };
  const valueFrom = kind === "Secret" ? { secretKeyRef: selector } : { configMapKeyRef: selector };
  const demand = optional ? "optional" : "mandatory";
  const name = `${demand}-${kind.toLowerCase()}`;
  const pod = await createPod(target, name, [
    { name: "main", image: "none", env: [{ name: "X", valueFrom }] },
  ]);
  const reason = `${optional ? "Optional" : "Mandatory"}${kind}NotFound`;
  await until<Event>({
    client: target.client,
    path: paths.events(target.namespace),
    check: (events) =>
      events.some(
        (event) => event.reason === reason && event.involvedObject.uid === pod.metadata.uid,
      ),
  });
  if (optional) await ready(target, pod);
  else assert.ok(!(await runningUids(target)).includes(pod.metadata.uid));
  await remove(target, pod);
}

async function startPod(target: Target, name: string, containers = 1): Promise<Pod> {
  const list = Array.from({ length: containers }, (_, index) => ({
    name: `c${index}`,
    image: "none",
  }));
  const pod = await createPod(target, name, list);
  await ready(target, pod);
  return pod;
}

async function createPod(
  { client, namespace, nodeName }: Target,
  name: string,
  containers: NonNullable<Pod["spec"]>["containers"],
): Promise<Pod> {
  return client.create<Pod>(paths.pods(namespace), {
    metadata: { name },
    spec: {
      nodeName,
      enableServiceLinks: false,
      tolerations: [{ operator: "Exists" }],
      containers,
    },
  });
}

async function ready({ client, namespace }: Target, pod: Pod): Promise<void> {
  await until<Pod>({
    client,
    path: paths.pods(namespace),
    fieldSelector: `metadata.name=${pod.metadata.name}`,
    check: ([each]) =>
      each?.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True"),
  });
}

async function remove(target: Target, pod: Pod): Promise<void> {
  const { client, namespace } = target;
  await client.delete(paths.pods(namespace, pod.metadata.name), { graceSeconds: 0 });
  await gone(target, pod);
}

async function gone({ client, namespace }: Target, pod: Pod): Promise<void> {
  await until<Pod>({
    client,
    path: paths.pods(namespace),
    check: (pods) => !pods.some(({ metadata }) => metadata.uid === pod.metadata.uid),
  });
}

async function runningUids(target: Target): Promise<readonly string[]> {
  const { items } = await proxy<{ readonly items: readonly Pod[] | null }>(target, "runningpods/");
  return (items ?? []).map(({ metadata }) => metadata.uid);
}

async function proxy<T>(target: Target, path: string): Promise<T> {
  return JSON.parse(await proxyText(target, path)) as T; // the kubelet's documents
}

/** The response of the node's kubelet API, through the API server. */
async function proxyText({ client, nodeName }: Target, path: string): Promise<string> {
  const url = `${paths.nodes(nodeName, "proxy")}/${path}`;
  const { status, body } = await client.request("GET", url);
  assert.equal(status, 200, `GET ${url}: ${body.toString().slice(0, 300)}`);
  return body.toString();
}
