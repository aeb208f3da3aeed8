// What the kubelet API tells of the node as a whole.
import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { after, before, describe, it } from "node:test";
import { podWith } from "@kip/k8s-types/testing";
import type { ProbeCounts, ProviderStats } from "../src/index.ts";
import type { KubeletHandlers } from "../src/kubelet-api/index.ts";
import { KubeletApiFixture } from "./kubelet-api-fixture.ts";
import { ProcessProvider } from "./process-provider.ts";

/** A provider with all optional parts. */
class FullProvider extends ProcessProvider implements KubeletHandlers {
  failure: Error | undefined;

  readonly stats = async (): Promise<ProviderStats> => {
    if (this.failure) throw this.failure;
    const timeMs = Date.now();
    const containers = ["c", "d", "e"].map((name) => ({
      name,
      timeMs,
      cpuNanoseconds: 1e9,
      memoryBytes: 2000,
      workingSetBytes: 1000,
    }));
    return { pods: [{ uid: "u1", containers }] };
  };

  readonly hasLogStreams = true;

  readonly probes = async (): Promise<readonly ProbeCounts[]> => [
    { uid: "u1", container: "c", kind: "Readiness", successful: 7, failed: 2 },
    { uid: "u1", container: "unknown", kind: "Liveness", successful: 1, failed: 0 },
    { uid: "gone", container: "c", kind: "Liveness", successful: 1, failed: 0 },
  ];

  checkHealth(): void {
    if (this.failure) throw this.failure;
  }

  metrics(): string {
    return "extra_total 1\n";
  }

  config(): Readonly<Record<string, unknown>> {
    return { maxPods: 5 };
  }
}

describe("kubelet API: the node", { timeout: 60_000 }, () => {
  const provider = new FullProvider(
    podWith({
      metadata: { name: "p", namespace: "ns", uid: "u1" },
      spec: { containers: [{ name: "c", image: "x" }] },
    }),
    "/tmp",
  );
  let api: KubeletApiFixture;

  before(async () => {
    api = await KubeletApiFixture.start({ handlers: provider });
  });

  after(async () => {
    await api[Symbol.asyncDispose]();
  });

  it("K1, K4: /pods are the API server's, /runningpods/ the provider's, with their UIDs", async () => {
    for (const path of ["/pods", "/pods/", "/runningpods/", "/runningpods"]) {
      const list = JSON.parse((await api.ask(path)).text) as { kind: string; items: unknown };
      assert.deepEqual([list.kind, list.items], ["PodList", [provider.pod]], path);
    }
  });

  it("K2: /stats/summary has the node, and the pod with its containers", async () => {
    for (const path of [
      "/stats/summary",
      "/stats/summary/",
      "/stats/summary?only_cpu_and_memory=1",
    ]) {
      const answer = await api.ask(path);
      assert.equal(answer.headers["content-type"], "application/json");
      const summary = JSON.parse(answer.text) as Summary;
      assert.equal(summary.node.nodeName, "node");
      assert.equal(summary.pods[0]?.podRef.uid, "u1");
      assert.equal(summary.pods[0]?.containers.length, 3);
    }
  });

  it("A2, K3: /metrics/resource in Prometheus' format; the provider's error in words", async () => {
    const answer = await api.ask("/metrics/resource");
    assert.equal(answer.status, 200);
    assert.equal(answer.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    assert.equal(answer.text.match(/^container_cpu_usage_seconds_total\{/gm)?.length, 3);
    assert.match(answer.text, /^pod_cpu_usage_seconds_total\{namespace="ns",pod="p"\} 3 \d+$/m);
    provider.failure = new Error("no figures today");
    const failed = await api.ask("/metrics/resource");
    provider.failure = undefined;
    assert.deepEqual([failed.status, failed.text], [500, "no figures today"]);
    await using bare = await KubeletApiFixture.start();
    for (const path of ["/metrics/resource", "/metrics/cadvisor", "/stats/summary"])
      assert.deepEqual((await bare.ask(path)).status, 501, path);
  });

  it("/metrics counts the requests, and has the provider's own", async () => {
    await api.ask("/containerLogs/ns/p/c");
    const { text, status } = await api.ask("/metrics");
    assert.equal(status, 200);
    assert.match(text, /^kubelet_http_requests_total\{.*path="pods".*\} \d+$/m);
    assert.match(text, /^kubelet_node_name\{node="node"\} 1$/m);
    assert.match(text, /^kubelet_running_pods 1$/m);
    assert.match(text, /^process_resident_memory_bytes \d+$/m);
    assert.match(text, /^extra_total 1$/m);
    assert.match((await api.ask("/metrics/cadvisor")).text, /container_memory_working_set_bytes/);
  });

  it("/metrics/probes has the provider's counts by a kubelet's names, or nothing", async () => {
    const [head, type, ...samples] = (await api.ask("/metrics/probes")).text.trim().split("\n");
    assert.match(head ?? "", /^# HELP prober_probe_total /);
    assert.equal(type, "# TYPE prober_probe_total counter");
    const labels = `container="c",namespace="ns",pod="p",pod_uid="u1",probe_type="Readiness"`;
    assert.deepEqual(samples, [
      `prober_probe_total{${labels},result="successful"} 7`,
      `prober_probe_total{${labels},result="failed"} 2`,
    ]);
    await using bare = await KubeletApiFixture.start();
    const empty = await bare.ask("/metrics/probes");
    assert.deepEqual([empty.status, empty.text], [200, ""]);
  });

  it("containerLogs gives one stream where the provider can, and says so where it cannot", async () => {
    const path = "/containerLogs/ns/p/c?stream=Stderr";
    assert.equal((await api.ask(path)).status, 200);
    assert.equal(provider.logRequests.at(-1)?.stream, "Stderr");
    await using bare = await KubeletApiFixture.start();
    const refused = await bare.ask(path);
    assert.equal(refused.status, 400);
    assert.match(refused.text, /cannot tell the streams apart; only "All" works/);
    assert.equal((await bare.ask("/containerLogs/ns/p/c?stream=All")).status, 200);
  });

  it("containerLogs says in words that a log breaks off before its first byte", async () => {
    const handlers = new ProcessProvider(provider.pod, "/tmp");
    const log = new PassThrough();
    await using broken = await KubeletApiFixture.start({
      handlers: Object.assign(handlers, { logs: async () => await Promise.resolve(log) }),
    });
    const answer = broken.ask("/containerLogs/ns/p/c");
    log.destroy();
    const { status, text } = await answer;
    assert.equal(status, 500);
    assert.match(text, /Cannot read the log of container "c" in pod "p": Premature close/);
  });

  it("/healthz and its checks", async () => {
    assert.equal((await api.ask("/healthz")).text, "ok");
    assert.match(
      (await api.ask("/healthz?verbose")).text,
      /\[\+\]syncloop ok\nhealthz check passed/,
    );
    provider.failure = new Error("the cloud is away");
    const failed = await api.ask("/healthz");
    assert.equal(failed.status, 500);
    assert.match(failed.text, /\[-\]syncloop failed: reason withheld/);
    assert.equal((await api.ask("/healthz/ping")).status, 200);
    assert.equal((await api.ask("/healthz/syncloop")).status, 500);
    provider.failure = undefined;
    assert.equal((await api.ask("/healthz/syncloop")).status, 200);
    assert.equal((await api.ask("/healthz/other")).status, 404);
  });

  it("/configz shows a KubeletConfiguration", async () => {
    const { kubeletconfig } = JSON.parse((await api.ask("/configz")).text) as {
      kubeletconfig: Readonly<Record<string, unknown>>;
    };
    assert.equal(kubeletconfig["kind"], "KubeletConfiguration");
    assert.equal(kubeletconfig["maxPods"], 5);
    assert.equal(kubeletconfig["streamingConnectionIdleTimeout"], "14400s");
  });
});

interface Summary {
  readonly node: { readonly nodeName: string };
  readonly pods: readonly {
    readonly podRef: { readonly uid: string };
    readonly containers: readonly unknown[];
  }[];
}
