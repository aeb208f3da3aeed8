import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { cluster, eventually, shellPod, type Cluster } from "./cluster.ts";
import { cluster as own } from "./cluster-number.ts";

const node = `/api/v1/nodes/${own.name}/proxy`;
const MiB = 2 ** 20;

interface FileSystem {
  readonly capacityBytes?: number;
  readonly availableBytes?: number;
  readonly usedBytes?: number;
  readonly inodesUsed?: number;
}

interface Summary {
  readonly pods: readonly {
    readonly podRef: { readonly name: string; readonly namespace: string };
    readonly containers: readonly {
      readonly name: string;
      readonly startTime: string | null;
      readonly cpu?: { readonly usageNanoCores?: number };
      readonly memory?: Readonly<Record<string, number | string>>;
      readonly rootfs?: FileSystem;
      readonly logs?: FileSystem;
    }[];
    readonly network?: {
      readonly name: string;
      readonly interfaces: readonly {
        readonly name: string;
        readonly rxBytes: number;
        readonly txBytes: number;
      }[];
    };
    readonly volume?: readonly (FileSystem & { readonly name: string })[];
    readonly "ephemeral-storage"?: FileSystem;
    readonly process_stats?: { readonly process_count: number };
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
    // The first response has no rate yet. The next one has, a second later or more.
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
    for (const each of [of, other]) assert.ok(Number(each?.memory?.["workingSetBytes"]) > 10_000);
    const text = await kube.ok("get", "--raw", `${node}/metrics/resource`);
    const labels = 'container="busy",namespace="usage",pod="worker"';
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

  it("tells collectors of network, files, memory and processes what the pod has used", async () => {
    const main = {
      name: "main",
      image: "kip.local/demo:latest",
      resources: { limits: { memory: "200Mi", cpu: "500m" } },
      volumeMounts: [
        { name: "data", mountPath: "/data" },
        { name: "fast", mountPath: "/fast" },
      ],
    };
    const script =
      "dd if=/dev/zero of=/data/file bs=1M count=3; dd if=/dev/zero of=/fast/file bs=1M count=2; " +
      "dd if=/dev/zero of=/written bs=1M count=1; sync; echo written; while :; do sleep 1; done";
    await kube.apply(
      shellPod("figures", script, {
        terminationGracePeriodSeconds: 1,
        containers: [{ ...main, command: ["sh", "-c", script] }],
        volumes: [
          { name: "data", emptyDir: {} },
          { name: "fast", emptyDir: { medium: "Memory", sizeLimit: "16Mi" } },
        ],
      }),
    );
    await kube.ok("wait", "--for=condition=Ready", "pod/figures", "--timeout=240s");
    await eventually("the files", async () =>
      (await kube.ok("logs", "figures")).includes("written"),
    );
    // Disk use is measured every ten seconds. The folders are only walked while someone reads the figures.
    let stats: Summary["pods"][number] | undefined;
    await eventually("figures of the files", async () => {
      const summary = JSON.parse(await kube.ok("get", "--raw", `${node}/stats/summary`)) as Summary;
      stats = summary.pods.find(({ podRef }) => podRef.name === "figures");
      const data = stats?.volume?.find(({ name }) => name === "data");
      return (data?.usedBytes ?? 0) >= 3 * MiB;
    });
    const [container] = stats?.containers ?? [];
    assert.ok(container?.startTime);
    for (const key of ["usageBytes", "workingSetBytes", "rssBytes", "pageFaults", "availableBytes"])
      assert.ok(Number(container?.memory?.[key]) > 0, key);
    const eth0 = stats?.network?.interfaces.find(({ name }) => name === "eth0");
    assert.equal(stats?.network?.name, "eth0");
    assert.ok((eth0?.txBytes ?? 0) > 0, JSON.stringify(stats?.network));
    assert.ok((container?.rootfs?.usedBytes ?? 0) >= MiB);
    assert.ok((container?.rootfs?.usedBytes ?? 0) < 3 * MiB);
    assert.ok((container?.logs?.usedBytes ?? 0) > 0 && (container?.logs?.inodesUsed ?? 0) > 0);
    const whole = stats?.["ephemeral-storage"];
    assert.ok((whole?.usedBytes ?? 0) >= 4 * MiB && (whole?.usedBytes ?? 0) < 8 * MiB);
    assert.ok((whole?.availableBytes ?? 0) > 0);
    assert.ok((whole?.capacityBytes ?? 0) > (whole?.availableBytes ?? 0));
    const fast = stats?.volume?.find(({ name }) => name === "fast");
    assert.equal(fast?.capacityBytes, 16 * MiB);
    assert.ok((fast?.usedBytes ?? 0) >= 2 * MiB && (fast?.usedBytes ?? 0) < 3 * MiB);
    assert.ok((stats?.process_stats?.process_count ?? 0) >= 2);

    const text = await kube.ok("get", "--raw", `${node}/metrics/cadvisor`);
    const value = (name: string, more = ""): number => {
      const labels = `container="main",${more}id="[^"]*",image="kip.local/demo:latest",name="\\w+",namespace="usage",pod="figures"`;
      return Number(new RegExp(`^${name}\\{${labels}\\} (\\S+)`, "m").exec(text)?.[1]);
    };
    assert.ok(value("container_cpu_usage_seconds_total", 'cpu="total",') > 0, text);
    assert.ok(value("container_memory_rss") > 0);
    assert.equal(value("container_spec_memory_limit_bytes"), 200 * MiB);
    assert.equal(value("container_spec_cpu_quota"), 50_000);
    assert.ok(value("container_processes") >= 2);
    assert.match(
      text,
      /^container_network_transmit_bytes_total\{container="",id="[^"]*",image="",interface="eth0",name="",namespace="usage",pod="figures"\} [1-9]/m,
    );
    // Depends on the cell's kernel, so it is printed to this test's log.
    const names = [...new Set(text.match(/^container_\w+/gm))];
    console.log(
      JSON.stringify({
        families: names.length,
        psi: names.filter((one) => /pressure/.test(one)).length,
        io: value("container_fs_writes_bytes_total", 'device="[^"]*",'),
      }),
    );
    await kube.ok("delete", "pod", "figures");
  });

  it("answers the API server's questions about the node", async () => {
    assert.equal(await kube.ok("get", "--raw", `${node}/healthz`), "ok");
    assert.match(await kube.ok("get", "--raw", `${node}/configz`), /"KubeletConfiguration"/);
    assert.match(await kube.ok("get", "--raw", `${node}/metrics`), /^kubelet_node_name\{/m);
    const logs = await kube.kubectl("get", "--raw", `${node}/logs/`);
    assert.match(logs.stderr, /endpoint is disabled|MethodNotAllowed|not allow/i);
  });
});
