import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { cluster, eventually, shellPod, type Cluster } from "./cluster.ts";
import { cluster as own } from "./cluster-number.ts";

const node = `/api/v1/nodes/${own.name}/proxy`;

interface Summary {
  readonly pods: readonly {
    readonly podRef: { readonly name: string; readonly namespace: string };
    readonly containers: readonly {
      readonly name: string;
      readonly cpu?: { readonly usageNanoCores?: number };
      readonly memory?: { readonly workingSetBytes?: number };
    }[];
  }[];
}

describe("what pods use", () => {
  let kube: Cluster;
  before(async () => {
    kube = await cluster("usage");
  });

  it("tells collectors how much processor time and memory each container takes", async () => {
    const busy = { name: "busy", image: "kip.local/demo:latest" };
    const readinessProbe = { exec: { command: ["true"] }, periodSeconds: 1, timeoutSeconds: 10 };
    const idle = { ...busy, name: "idle", command: ["sleep", "1000000"], readinessProbe };
    const script = "while :; do :; done";
    await kube.apply(
      shellPod("worker", script, {
        terminationGracePeriodSeconds: 1,
        containers: [{ ...busy, command: ["sh", "-c", script] }, idle],
      }),
    );
    await kube.ok("wait", "--for=condition=Ready", "pod/worker", "--timeout=240s");
    // The first look has no rate yet; the next one, a second later or more, has.
    let containers: Summary["pods"][number]["containers"] = [];
    await eventually("a rate of the busy container", async () => {
      const summary = JSON.parse(await kube.ok("get", "--raw", `${node}/stats/summary`)) as Summary;
      containers = summary.pods.find(({ podRef }) => podRef.name === "worker")?.containers ?? [];
      return containers.find(({ name }) => name === "busy")?.cpu?.usageNanoCores !== undefined;
    });
    const [of, other] = ["busy", "idle"].map((wanted) =>
      containers.find(({ name }) => name === wanted),
    );
    assert.ok((of?.cpu?.usageNanoCores ?? 0) > (other?.cpu?.usageNanoCores ?? 0));
    for (const each of [of, other]) assert.ok((each?.memory?.workingSetBytes ?? 0) > 10_000);
    const text = await kube.ok("get", "--raw", `${node}/metrics/resource`);
    const labels = 'container="busy",pod="worker",namespace="usage"';
    const seconds = new RegExp(`^container_cpu_usage_seconds_total\\{${labels}\\} (\\S+)`, "m");
    assert.ok(Number(seconds.exec(text)?.[1]) > 0, text);
    assert.match(text, /^container_start_time_seconds\{container="idle"/m);
    assert.match(text, /^node_memory_working_set_bytes [1-9]/m);
    const probes = await kube.ok("get", "--raw", `${node}/metrics/probes`);
    const probed =
      /^prober_probe_total\{container="idle",namespace="usage",pod="worker",.*\} [1-9]/m;
    assert.match(probes, probed);
    await kube.ok("delete", "pod", "worker");
  });

  it("answers the API server's questions about the node", async () => {
    assert.equal(await kube.ok("get", "--raw", `${node}/healthz`), "ok");
    assert.match(await kube.ok("get", "--raw", `${node}/configz`), /"KubeletConfiguration"/);
    assert.match(await kube.ok("get", "--raw", `${node}/metrics`), /^kubelet_node_name\{/m);
    const logs = await kube.kubectl("get", "--raw", `${node}/logs/`);
    assert.match(logs.stderr, /endpoint is disabled|MethodNotAllowed|not allow/i);
  });
});
