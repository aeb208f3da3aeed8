import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { systemClock } from "@kip/base";
import { EagerClock } from "@kip/testing";
import { podWith } from "@kip/k8s-types/testing";
import type { ProviderStats } from "../../usage.ts";
import { cadvisorMetrics } from "./cadvisor-metrics.ts";
import { CpuRates } from "./cpu-rates.ts";
import { metricsText } from "../../metrics/metrics-text.ts";
import { NodeCpu, nodeUsage, type NodeUsage } from "./node-usage.ts";
import { RequestMetrics } from "./request-metrics.ts";
import { resourceMetrics } from "./resource-metrics.ts";
import { StatsSource } from "./stats-source.ts";
import { statsSummary } from "./summary.ts";

const timeMs = Date.UTC(2026, 0, 1, 0, 1);
const startTimeMs = Date.UTC(2026, 0, 1);
const pod = podWith({
  metadata: { name: "p", namespace: "ns", uid: "u1" },
  status: {
    startTime: "2026-01-01T00:00:00Z",
    containerStatuses: [
      {
        name: "a",
        image: "img:1",
        imageID: "",
        containerID: "kip://abc",
        ready: true,
        restartCount: 0,
      },
    ],
  },
});

function measured(seconds = 2, timeAt = timeMs): ProviderStats {
  const usage = { timeMs: timeAt, memoryBytes: 200, workingSetBytes: 100 };
  return {
    pods: [
      {
        uid: "u1",
        containers: [
          { ...usage, name: "a", startTimeMs, cpuNanoseconds: seconds * 1e9 },
          { ...usage, name: "b", cpuNanoseconds: 5e8 },
        ],
        network: { timeMs: timeAt, receivedBytes: 7, sentBytes: 8 },
      },
      { uid: "gone", containers: [] },
    ],
  };
}

function usageOf(stats: ProviderStats): NodeUsage {
  return nodeUsage(stats, [pod, podWith()], {
    nodeName: "n1",
    startTimeMs,
    nowMs: timeMs,
    cpu: new NodeCpu(),
  });
}

describe("statsSummary(), resourceMetrics() and cadvisorMetrics()", () => {
  it("K2: the summary names the node, the pod and each container", () => {
    const options = { onlyCpuAndMemory: false };
    const rates = new CpuRates();
    statsSummary(usageOf(measured(2, timeMs - 2000)), rates, options);
    const time = "2026-01-01T00:01:00Z";
    const memory = { time, usageBytes: 200, workingSetBytes: 100 };
    assert.deepEqual(statsSummary(usageOf(measured(3)), rates, options), {
      node: {
        nodeName: "n1",
        startTime: "2026-01-01T00:00:00Z",
        cpu: { time, usageNanoCores: 5e8, usageCoreNanoSeconds: 3.5e9 },
        memory: { time, usageBytes: 400, workingSetBytes: 200 },
      },
      pods: [
        {
          podRef: { name: "p", namespace: "ns", uid: "u1" },
          startTime: "2026-01-01T00:00:00Z",
          containers: [
            {
              name: "a",
              startTime: "2026-01-01T00:00:00Z",
              cpu: { time, usageNanoCores: 5e8, usageCoreNanoSeconds: 3e9 },
              memory,
            },
            {
              name: "b",
              startTime: null,
              cpu: { time, usageNanoCores: 0, usageCoreNanoSeconds: 5e8 },
              memory,
            },
          ],
          cpu: { time, usageNanoCores: 5e8, usageCoreNanoSeconds: 3.5e9 },
          memory: { time, usageBytes: 400, workingSetBytes: 200 },
          network: {
            time,
            name: "eth0",
            rxBytes: 7,
            txBytes: 8,
            interfaces: [{ name: "eth0", rxBytes: 7, txBytes: 8 }],
          },
        },
      ],
    });
    const short = statsSummary(usageOf(measured(3)), rates, { onlyCpuAndMemory: true });
    assert.ok(!JSON.stringify(short).includes("network"));
  });

  it("K3: the resource metrics are those of node, pods and containers, with their time", () => {
    const lines = metricsText(resourceMetrics(usageOf(measured())))
      .split("\n")
      .filter((line) => !line.startsWith("#"));
    const pods = 'namespace="ns",pod="p"';
    assert.deepEqual(lines, [
      `container_cpu_usage_seconds_total{container="a",${pods}} 2 ${timeMs}`,
      `container_cpu_usage_seconds_total{container="b",${pods}} 0.5 ${timeMs}`,
      `container_memory_working_set_bytes{container="a",${pods}} 100 ${timeMs}`,
      `container_memory_working_set_bytes{container="b",${pods}} 100 ${timeMs}`,
      `container_start_time_seconds{container="a",${pods}} ${startTimeMs / 1000}`,
      `node_cpu_usage_seconds_total 2.5 ${timeMs}`,
      `node_memory_working_set_bytes 200 ${timeMs}`,
      `pod_cpu_usage_seconds_total{${pods}} 2.5 ${timeMs}`,
      `pod_memory_working_set_bytes{${pods}} 200 ${timeMs}`,
      "resource_scrape_error 0",
      "",
    ]);
  });

  it("gives dashboards cAdvisor's names", () => {
    const text = metricsText([...cadvisorMetrics(usageOf(measured()))]);
    assert.match(
      text,
      /^container_cpu_usage_seconds_total\{container="a",cpu="total",id="\/kubepods\/podu1\/abc",image="img:1",name="abc",namespace="ns",pod="p"\} 2 /m,
    );
    assert.match(
      text,
      /^container_network_receive_bytes_total\{container="".*interface="eth0",name="",namespace="ns",pod="p"\} 7 /m,
    );
  });

  it("takes the provider's own totals, and none for what is not known", () => {
    const bare = { timeMs };
    const stats = { pods: [{ uid: "u1", containers: [], total: bare }], node: bare };
    assert.deepEqual(statsSummary(usageOf(stats), new CpuRates(), { onlyCpuAndMemory: false }), {
      node: { nodeName: "n1", startTime: "2026-01-01T00:00:00Z" },
      pods: [
        {
          podRef: { name: "p", namespace: "ns", uid: "u1" },
          startTime: "2026-01-01T00:00:00Z",
          containers: [],
        },
      ],
    });
  });
});

describe("CpuRates", () => {
  it("keeps the last rate for looks that follow too soon, and starts again after a restart", () => {
    const rates = new CpuRates();
    const look = (at: number, cpuNanoseconds: number): number | undefined => {
      const rate = rates.rate("x", { timeMs: at, cpuNanoseconds });
      rates.endMeasurement();
      return rate;
    };
    assert.equal(look(0, 0), undefined);
    assert.equal(look(500, 1e9), undefined);
    assert.equal(look(2000, 1e9), 5e8);
    assert.equal(look(2100, 9e9), 5e8);
    assert.equal(look(4000, 3e9), 1e9);
    assert.equal(look(6000, 1e9), undefined);
    rates.endMeasurement();
    assert.equal(look(9000, 2e9), undefined);
  });

  it("measures again when the clock was set back", () => {
    const rates = new CpuRates();
    const usage = (seconds: number, at: number): number | undefined => {
      const rate = rates.rate("k", { timeMs: at, cpuNanoseconds: seconds * 1e9 });
      rates.endMeasurement();
      return rate;
    };
    usage(1, timeMs);
    assert.equal(usage(2, timeMs + 2000), 5e8);
    assert.equal(usage(3, timeMs - 3_600_000), undefined);
    assert.equal(usage(5, timeMs - 3_598_000), 1e9);
  });
});

describe("StatsSource", () => {
  it("measures once for all callers at the same time, and again later", async () => {
    let count = 0;
    const source = new StatsSource(async () => {
      count++;
      return { pods: [] };
    }, systemClock);
    await Promise.all([source.read(), source.read()]);
    await source.read();
    assert.equal(count, 2);
  });

  it("gives up on a provider that hangs, and aborts its signal", async () => {
    const clock = new EagerClock();
    let aborted = false;
    const source = new StatsSource(async (signal) => {
      signal.addEventListener("abort", () => (aborted = true));
      return await new Promise<never>(() => {});
    }, clock);
    await assert.rejects(source.read(), /no figures within 15 s/);
    assert.ok(aborted);
  });
});

describe("RequestMetrics", () => {
  it("counts requests by route and how long they took", () => {
    const requests = new RequestMetrics();
    for (let count = 0; count < 3; count++) requests.begin();
    requests.end({ method: "GET", route: "pods", isLong: false, durationMs: 20 });
    requests.end({ method: "GET", route: "pods", isLong: false, durationMs: 3000 });
    requests.webSocket("exec");
    const text = metricsText(requests.families());
    const labels = 'long_running="false",method="GET",path="pods",server_type="readwrite"';
    for (const line of [
      "kubelet_http_inflight_requests 1",
      `kubelet_http_requests_total{${labels}} 2`,
      `kubelet_http_requests_duration_seconds_bucket{${labels},le="0.025"} 1`,
      `kubelet_http_requests_duration_seconds_bucket{${labels},le="+Inf"} 2`,
      `kubelet_http_requests_duration_seconds_sum{${labels}} 3.02`,
      'kubelet_streaming_websocket_requests_total{subresource="exec"} 1',
    ])
      assert.ok(text.includes(`\n${line}\n`), line);
  });
});
