// A node's kubelet API as the cluster sees it: through the API server's proxy, and by kubectl top.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import https from "node:https";
import type { Duplex } from "node:stream";
import { pipeline } from "node:stream/promises";
import { after, before, describe, it } from "node:test";
import { runCommand, systemClock, type ProcessStreams } from "@kip/base";
import { paths } from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";
import { MemoryProvider, polledVariant } from "@kip/virtual-kubelet/testing";
import {
  connectProcess,
  delegatedAccess,
  type ProcessExit,
  type ProviderStats,
  type ResolvedPod,
} from "../src/index.ts";
import type { KubeletApiOptions } from "../src/kubelet-api/index.ts";
import { startMetricsDouble } from "./metrics-double.ts";
import {
  isRunning,
  nodeWith,
  podsUntil,
  runningPod,
  uniqueNodeName,
  useCluster,
} from "./support/cluster.ts";
import { adminTls } from "./support/admin-tls.ts";
import { connectTunnel } from "./websocket-test-client.ts";

const cluster = useCluster();
/** The API server's proxy refuses loopback addresses: one for documentation (RFC 5737), given to `lo`. */
const address = "192.0.2.77";
const isRoot = process.getuid?.() === 0;
const startedAt = Date.now();

/** Every container uses a quarter of a processor and 32 MiB. */
class MeasuredProvider extends MemoryProvider {
  constructor() {
    super();
    const capacity = { cpu: "4", memory: "1Gi", pods: "10" };
    this.facts = { capacity, internalIp: address };
  }

  async stats(): Promise<ProviderStats> {
    const timeMs = Date.now();
    const usage = {
      timeMs,
      cpuNanoseconds: (timeMs - startedAt) * 250_000,
      memoryBytes: 2 ** 26,
      workingSetBytes: 2 ** 25,
    };
    const pods = [...this.pods].map(([uid, { pod }]) => ({
      uid,
      containers: (pod.spec.containers ?? []).map(({ name }) => ({ name, ...usage })),
    }));
    return { pods };
  }

  /** An ephemeral container runs as soon as it is asked for. */
  override async apply(resolved: ResolvedPod): Promise<void> {
    await super.apply(resolved);
    const { ephemeralContainers = [] } = resolved.pod.spec;
    if (ephemeralContainers.length > 0) this.report(resolved.pod.metadata.uid, "Running");
  }

  /** To a shell of its own for each. */
  async attach(
    _pod: Pod,
    container: string,
    streams: ProcessStreams,
    signal: AbortSignal,
  ): Promise<ProcessExit> {
    return connectProcess(spawn("sh", [], { env: { ...process.env, container }, signal }), streams);
  }

  async portForward(_pod: Pod, _port: number, connection: Duplex): Promise<void> {
    await pipeline(connection, connection);
  }
}

const spec = {
  containers: ["a", "b", "c"].map((name) => ({ name, image: "example.test/web:1" })),
};

const skip = isRoot ? false : "giving lo another address takes root";

describe("a node's kubelet API in its cluster", { timeout: 240_000, skip }, () => {
  before(async () => {
    await runCommand("ip", ["address", "replace", `${address}/32`, "dev", "lo"]);
  });

  after(async () => {
    await runCommand("ip", ["address", "delete", `${address}/32`, "dev", "lo"]);
  });

  for (const variant of ["notifier", "polled"] as const) {
    describe(variant, () => {
      it("K1: /pods through the API server lists this node's pods only", async () => {
        await using node = await measuredNode(variant);
        await using other = await measuredNode(variant);
        const { uid } = await runningPod(cluster, { node: node.name, spec });
        await runningPod(cluster, { node: other.name, spec });
        const list = (await node.get("pods")) as { items: Pod[] };
        assert.deepEqual(
          list.items.map((pod) => pod.metadata.uid),
          [uid],
        );
      });

      it("K2: /stats/summary has the node and the pod with its three containers", async () => {
        await using node = await measuredNode(variant);
        const { uid } = await runningPod(cluster, { node: node.name, spec });
        const summary = (await node.get("stats/summary")) as {
          node: { nodeName: string };
          pods: { podRef: { uid: string }; containers: unknown[] }[];
        };
        assert.equal(summary.node.nodeName, node.name);
        const pod = summary.pods.find(({ podRef }) => podRef.uid === uid);
        assert.equal(pod?.containers.length, 3);
      });

      it("K3: /metrics/resource has the pod, and its three containers", async () => {
        await using node = await measuredNode(variant);
        await runningPod(cluster, { node: node.name, spec });
        const text = await node.text("metrics/resource");
        assert.match(text, /^pod_cpu_usage_seconds_total\{namespace="[^"]+",pod="web"\}/m);
        const counted =
          /^container_cpu_usage_seconds_total\{container="[abc]",namespace="[^"]+",pod="web"/gm;
        assert.equal(text.match(counted)?.length, 3);
      });

      it("K4, K5: a deleted pod leaves /runningpods/, with its grace period or without", async () => {
        await using node = await measuredNode(variant);
        for (const graceSeconds of [30, 0]) {
          const { namespace } = await runningPod(cluster, { node: node.name, spec });
          const running = async (): Promise<readonly Pod[]> =>
            ((await node.get("runningpods/")) as { items: Pod[] }).items.filter(
              (pod) => pod.metadata.namespace === namespace,
            );
          assert.equal((await running()).length, 1);
          await cluster.admin.delete(paths.pods(namespace, "web"), { graceSeconds });
          await podsUntil(cluster, namespace, (pods) => pods.length === 0);
          // With grace 0 the API forgets the pod before the provider does.
          for (const limit = Date.now() + 30_000; (await running()).length > 0;)
            assert.ok(Date.now() < limit, "it still runs");
        }
      });
    });
  }

  it("/healthz fails while the provider's ping does; /configz tells of its lease", async () => {
    const memory = new MeasuredProvider();
    await using node = await measuredNode("notifier", memory);
    assert.equal(await node.text("healthz"), "ok");
    const { kubeletconfig } = (await node.get("configz")) as {
      kubeletconfig: Readonly<Record<string, unknown>>;
    };
    assert.equal(kubeletconfig["nodeLeaseDurationSeconds"], 40);
    memory.failures.ping.push(...Array.from({ length: 1000 }, () => new Error("no cloud today")));
    const health = async (): Promise<number> =>
      (await cluster.admin.request("GET", `/api/v1/nodes/${node.name}/proxy/healthz`)).status;
    // Pings are not visible outside of the process.
    for (const limit = Date.now() + 30_000; (await health()) !== 500;)
      assert.ok(Date.now() < limit, "it is still healthy");
    memory.failures.ping.length = 0;
    for (const limit = Date.now() + 30_000; (await health()) !== 200;)
      assert.ok(Date.now() < limit, "it is still unhealthy");
  });

  it("kubectl top node and pod, with metrics-server's queries and its permissions", async () => {
    await using node = await measuredNode("notifier");
    const { namespace } = await runningPod(cluster, { node: node.name, spec });
    const kubectl = async (...args: readonly string[]): Promise<string> =>
      await cluster.plane.kubectl(args);
    await kubectl("-n", namespace, "create", "serviceaccount", "metrics");
    await kubectl("create", "clusterrole", namespace, "--verb=get", "--resource=nodes/metrics");
    const account = `--serviceaccount=${namespace}:metrics`;
    await kubectl("create", "clusterrolebinding", namespace, `--clusterrole=${namespace}`, account);
    const token = (await kubectl("-n", namespace, "create", "token", "metrics")).trim();
    await using double = await startMetricsDouble({
      node: node.name,
      scrape: async () => await scrape(node.port, token),
    });
    const service = { namespace, name: "metrics", port: double.port };
    await cluster.admin.create(paths.services(namespace), {
      metadata: { name: "metrics" },
      spec: { type: "ExternalName", externalName: "localhost" },
    });
    const name = "v1beta1.metrics.k8s.io";
    await cluster.admin.create("/apis/apiregistration.k8s.io/v1/apiservices", {
      metadata: { name },
      spec: {
        group: "metrics.k8s.io",
        version: "v1beta1",
        service,
        insecureSkipTLSVerify: true,
        groupPriorityMinimum: 100,
        versionPriority: 100,
      },
    });
    try {
      await kubectl("wait", "--for=condition=Available", `apiservice/${name}`, "--timeout=60s");
      const nodes = await kubectl("top", "node", node.name, "--no-headers");
      assert.match(nodes, new RegExp(`^${node.name} +7[45]\\d?m? +1[89]% +96Mi +9% *$`, "m"));
      const pods = await kubectl("top", "pod", "-n", namespace, "--no-headers");
      assert.match(pods, /^web +7[45]\dm +96Mi/m);
      const each = await kubectl("top", "pod", "-n", namespace, "--containers", "--no-headers");
      assert.match(each, /^web +b +2[45]\dm +32Mi/m);
    } finally {
      await cluster.admin.delete(`/apis/apiregistration.k8s.io/v1/apiservices/${name}`);
      await kubectl("delete", "clusterrolebinding", namespace);
      await kubectl("delete", "clusterrole", namespace);
    }
  });

  it("declares what its kubelet API can do, to API servers that know what that is", async () => {
    await using node = await measuredNode("notifier");
    const { status } = await cluster.admin.get<{
      readonly status: { readonly declaredFeatures?: readonly string[] };
    }>(paths.nodes(node.name));
    const isKnown = Number(cluster.plane.version.split(".")[1]) >= 36;
    assert.deepEqual(status.declaredFeatures, isKnown ? ["ExtendWebSocketsToKubelet"] : undefined);
  });

  it("kubectl debug puts a container into the pod and connects with it", async () => {
    await using node = await measuredNode("notifier");
    const { namespace } = await runningPod(cluster, { node: node.name, spec });
    const debug = ["debug", "web", "-i", "--image=example.test/tools:1", "--container=tools"];
    const told = await cluster.plane.kubectl(["-n", namespace, ...debug, "--", "sh"], {
      input: 'echo "I am $container"; exit\n',
    });
    assert.equal(told, "I am tools\n");
    const [pod] = await podsUntil(
      cluster,
      namespace,
      ([each]) =>
        each?.status?.ephemeralContainerStatuses?.some(({ state }) => state?.running) === true,
    );
    assert.equal(pod?.spec?.ephemeralContainers?.[0]?.name, "tools");
    assert.ok(isRunning(pod), "the pod goes on beside it");
  });

  it("kubectl says why an exec, and a log, above the limit of a pod's connections is refused", async () => {
    await using node = await measuredNode("notifier", new MeasuredProvider(), {
      podConnections: 0,
    });
    const { namespace } = await runningPod(cluster, { node: node.name, spec });
    const kubectl = async (...args: readonly string[]): Promise<string> =>
      await cluster.plane.kubectl(["-n", namespace, ...args]).catch(String);
    const reason = /pod "web" has 0 connections for [a-z, -]+ already; close some of them/;
    assert.match(await kubectl("attach", "web", "-c", "a", "-i"), reason);
    assert.match(await kubectl("port-forward", "web", ":80"), reason);
    assert.match(await kubectl("logs", "web", "-c", "a"), /TooManyRequests/);
  });

  it("a WebSocket with SPDY in it reaches the node through the API server", async () => {
    await using node = await measuredNode("notifier");
    const { namespace } = await runningPod(cluster, { node: node.name, spec });
    const server = new URL(cluster.plane.server);
    // The proxy drops the query of an upgrade; port-forward needs none.
    const path = `/api/v1/nodes/${node.name}/proxy/portForward/${namespace}/web`;
    const client = await connectTunnel(Number(server.port), path, await adminTls(cluster.plane));
    await client.open({ streamType: "error", port: "80", requestID: "0" });
    const data = await client.open({ streamType: "data", port: "80", requestID: "0" });
    client.data(data, "through the API server", true);
    assert.equal((await client.ended(data)).toString(), "through the API server");
    client.socket.destroy();
  });
});

interface MeasuredNode extends AsyncDisposable {
  readonly name: string;
  readonly port: number;
  text(path: string): Promise<string>;
  get(path: string): Promise<unknown>;
}

async function measuredNode(
  variant: "notifier" | "polled",
  memory = new MeasuredProvider(),
  limits: KubeletApiOptions["limits"] = {},
): Promise<MeasuredNode> {
  const name = uniqueNodeName();
  const running = await nodeWith(cluster, variant === "polled" ? polledVariant(memory) : memory, {
    nodeName: name,
    intervals: { pingMs: 200 },
    kubelet: {
      host: address,
      port: 0,
      limits,
      ...(await cluster.plane.issueKubeletCertificate(name, [address])),
      clientCa: cluster.plane.ca,
      ...delegatedAccess({ client: cluster.client, nodeName: name, clock: systemClock }),
    },
  });
  const text = async (path: string): Promise<string> => {
    const answer = await cluster.admin.request("GET", `/api/v1/nodes/${name}/proxy/${path}`);
    assert.equal(answer.status, 200, answer.body.toString());
    return answer.body.toString();
  };
  return {
    name,
    port: running.node.kubeletPort ?? 0,
    text,
    get: async (path) => JSON.parse(await text(path)) as unknown,
    [Symbol.asyncDispose]: async () => await running[Symbol.asyncDispose](),
  };
}

/** `/metrics/resource`, as metrics-server asks for it: directly, with its token. */
async function scrape(port: number, token: string): Promise<string> {
  const headers = { Authorization: `Bearer ${token}` };
  const options = { host: address, port, path: "/metrics/resource", headers, ca: cluster.plane.ca };
  return await new Promise<string>((resolve, reject) => {
    https
      .get(options, (response) => {
        let text = "";
        response.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
        response.once("end", () => resolve(text));
      })
      .once("error", reject);
  });
}
