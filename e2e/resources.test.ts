// Resources of pods on their cells, and changes of them while they run.
import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import type { Pod } from "@kip/k8s-types";
import { cluster, eventually, shellPod, type Cluster } from "./cluster.ts";

const image = "kip.local/demo:latest";
const MiB = 2 ** 20;
const forever = "while :; do sleep 1; done";
/** The cgroup of the whole pod. */
const podCgroup = {
  volumes: [{ name: "cgroup", hostPath: { path: "/sys/fs/cgroup/kip/pod" } }],
  mounts: [{ name: "cgroup", mountPath: "/pod", readOnly: true }],
} as const;

describe("resources of pods", () => {
  let kube: Cluster;

  before(async () => {
    kube = await cluster("resources");
  });

  const get = async (name: string): Promise<Pod> =>
    JSON.parse(await kube.ok("get", "pod", name, "-o", "json")) as Pod;

  /** The CPU, weight and memory limits that the kernel enforces for a container or its pod. */
  const inForce = async (pod: string, container: string, folder = "/sys/fs/cgroup") => {
    const files = ["cpu.max", "cpu.weight", "memory.max"].map((name) => `${folder}/${name}`);
    const text = await kube.ok("exec", pod, "-c", container, "--", "cat", ...files);
    return text.trim().split("\n");
  };

  const resize = async (pod: string, container: string, resources: object): Promise<void> => {
    const list = container === "sidecar" ? "initContainers" : "containers";
    const patch = { spec: { [list]: [{ name: container, resources }] } };
    await kube.ok("patch", "pod", pod, "--subresource=resize", "-p", JSON.stringify(patch));
  };

  const statusOf = (pod: Pod, container: string) =>
    [...(pod.status?.initContainerStatuses ?? []), ...(pod.status?.containerStatuses ?? [])].find(
      ({ name }) => name === container,
    );

  const conditionOf = (pod: Pod, type: string) =>
    pod.status?.conditions?.find((condition) => condition.type === type);

  /** Waits until a container has these resources. */
  const resized = async (pod: string, container: string, resources: object): Promise<Pod> => {
    let seen = await get(pod);
    await eventually(`${container} with ${JSON.stringify(resources)}`, async () => {
      seen = await get(pod);
      const { resources: now } = statusOf(seen, container) ?? {};
      return JSON.stringify(now) === JSON.stringify(resources);
    });
    return seen;
  };

  it("change in place, with restarts where wanted, and not beyond the cell", async () => {
    const small = {
      limits: { cpu: "200m", memory: "64Mi" },
      requests: { cpu: "100m", memory: "32Mi" },
    };
    await kube.apply(
      shellPod(
        "resized",
        forever,
        {
          hostPID: true,
          volumes: podCgroup.volumes,
          initContainers: [
            {
              name: "sidecar",
              image,
              command: ["sh", "-c", forever],
              restartPolicy: "Always",
              resources: { limits: { cpu: "100m", memory: "16Mi" } },
              resizePolicy: [{ resourceName: "memory", restartPolicy: "RestartContainer" }],
            },
          ],
          terminationGracePeriodSeconds: 0,
        },
        { resources: small, volumeMounts: podCgroup.mounts, securityContext: { privileged: true } },
      ),
    );
    await kube.ok("wait", "--for=condition=Ready", "pod/resized", "--timeout=240s");
    assert.deepEqual(await inForce("resized", "main"), ["20000 100000", "4", `${64 * MiB}`]);
    assert.deepEqual(await inForce("resized", "main", "/pod"), [
      "30000 100000",
      "8",
      `${80 * MiB}`,
    ]);
    const first = await get("resized");
    assert.deepEqual(statusOf(first, "main")?.resources, small);
    assert.deepEqual(statusOf(first, "main")?.allocatedResources, small.requests);

    const large = {
      limits: { cpu: "500m", memory: "96Mi" },
      requests: { cpu: "300m", memory: "48Mi" },
    };
    await resize("resized", "main", large);
    const second = await resized("resized", "main", large);
    assert.deepEqual(statusOf(second, "main")?.allocatedResources, large.requests);
    assert.equal(statusOf(second, "main")?.restartCount, 0);
    assert.deepEqual(await inForce("resized", "main"), ["50000 100000", "12", `${96 * MiB}`]);
    assert.deepEqual(await inForce("resized", "main", "/pod"), [
      "60000 100000",
      "16",
      `${112 * MiB}`,
    ]);
    await eventually("the event", async () =>
      (await kube.ok("events", "--for", "pod/resized")).includes("ResizeCompleted"),
    );

    // More than the machine has. The container keeps its resources, even after the agent restarts.
    const huge = { limits: { memory: "9Gi" }, requests: { memory: "8Gi" } };
    await resize("resized", "main", huge);
    const infeasible = async (): Promise<Pod> => {
      let seen = await get("resized");
      await eventually("PodResizePending", async () => {
        seen = await get("resized");
        return conditionOf(seen, "PodResizePending") !== undefined;
      });
      return seen;
    };
    const third = await infeasible();
    const pending = conditionOf(third, "PodResizePending");
    assert.deepEqual([pending?.status, pending?.reason], ["True", "Infeasible"]);
    assert.match(
      pending?.message ?? "",
      /^Node didn't have enough capacity: memory, requested: \d+, capacity: \d+$/,
    );
    assert.equal(pending?.observedGeneration, third.metadata.generation);
    assert.deepEqual(statusOf(third, "main")?.resources, large);
    await kube.kubectl("exec", "resized", "-c", "main", "--", "pkill", "-9", "-f", "/itzo.js");
    await eventually("the next agent", async () => {
      const { status } = await kube.kubectl("exec", "resized", "-c", "main", "--", "true");
      return status === 0;
    });
    assert.equal(conditionOf(await infeasible(), "PodResizePending")?.reason, "Infeasible");

    // A limit below the memory in use has to wait.
    const fill = "dd if=/dev/zero of=/dev/shm/full bs=1M count=40";
    await kube.ok("exec", "resized", "-c", "main", "--", "sh", "-c", fill);
    const less = {
      limits: { cpu: "500m", memory: "32Mi" },
      requests: { cpu: "300m", memory: "16Mi" },
    };
    await resize("resized", "main", less);
    await eventually("PodResizeInProgress", async () => {
      const condition = conditionOf(await get("resized"), "PodResizeInProgress");
      return (
        condition?.reason === "Error" &&
        condition.message?.startsWith("cannot decrease memory limits: ") === true
      );
    });
    assert.equal(conditionOf(await get("resized"), "PodResizePending"), undefined);
    assert.deepEqual((await inForce("resized", "main"))[2], `${96 * MiB}`);
    await kube.ok("exec", "resized", "-c", "main", "--", "rm", "/dev/shm/full");
    const fourth = await resized("resized", "main", less);
    assert.deepEqual((await inForce("resized", "main"))[2], `${32 * MiB}`);

    const sidecar = {
      limits: { cpu: "100m", memory: "24Mi" },
      requests: { cpu: "100m", memory: "24Mi" },
    };
    assert.equal(statusOf(fourth, "sidecar")?.restartCount, 0);
    await resize("resized", "sidecar", sidecar);
    await eventually("the sidecar's restart", async () => {
      const { restartCount, state } = statusOf(await get("resized"), "sidecar") ?? {};
      return restartCount === 1 && state?.running !== undefined;
    });
    const last = await resized("resized", "sidecar", sidecar);
    assert.deepEqual((await inForce("resized", "sidecar"))[2], `${24 * MiB}`);
    await eventually("the end of the resize", async () => {
      const { status } = await get("resized");
      return status?.conditions?.every(({ type }) => !type.startsWith("PodResize")) === true;
    });
    assert.equal(statusOf(last, "main")?.restartCount, 0);
    assert.equal(last.status?.qosClass, "Burstable");
    await kube.ok("delete", "pod", "resized", "--wait=false");
  });

  it("of the pod as a whole hold for its containers together", async () => {
    const resources = {
      limits: { cpu: "500m", memory: "96Mi" },
      requests: { cpu: "200m", memory: "64Mi" },
    };
    const noteScore = (file: string) => ({
      exec: { command: ["sh", "-c", `cat /proc/self/oom_score_adj >${file}`] },
    });
    const shared = {
      volumeMounts: podCgroup.mounts,
      lifecycle: { postStart: noteScore("/hook") },
      readinessProbe: { ...noteScore("/probe"), timeoutSeconds: 60 },
    };
    await kube.apply(
      shellPod(
        "whole",
        forever,
        { resources, volumes: podCgroup.volumes, terminationGracePeriodSeconds: 0 },
        shared,
      ),
    );
    await kube.ok("wait", "--for=condition=Ready", "pod/whole", "--timeout=240s");
    const limits = ["50000 100000", `${96 * MiB}`];
    const [cpu, weight, memory] = await inForce("whole", "main", "/pod");
    assert.deepEqual([cpu, weight, memory], [limits[0], "8", limits[1]]);
    // A container without limits may use all of the pod's resources.
    const own = await inForce("whole", "main");
    assert.deepEqual([own[0], own[2]], limits);
    const facts = await kube.ok(
      "exec",
      "whole",
      "--",
      "sh",
      "-c",
      "cat /proc/1/oom_score_adj; grep MemTotal /proc/meminfo",
    );
    const [score, total] = [...facts.matchAll(/-?\d+/g)].map(Number);
    assert.equal(score, 1000 - Math.trunc((1000 * 64 * MiB) / ((total ?? 0) * 1024)));
    for (const options of [[], ["-i"], ["-it"]]) {
      const own = ["--", "cat", "/proc/self/oom_score_adj"];
      assert.equal(
        Number(await kube.ok("exec", ...options, "whole", ...own)),
        score,
        options.join(),
      );
    }
    const hooked = ["cat", "/hook", "/probe"];
    const scores = (await kube.ok("exec", "whole", "--", ...hooked)).trim().split("\n");
    assert.deepEqual([...new Set(scores)], [String(score)]);
    await kube.ok("delete", "pod", "whole", "--wait=false");
  });

  it("leave the agent its memory, however much a pod without limits takes", async () => {
    const volumes = ["one", "two"].map((name) => ({ name, emptyDir: { medium: "Memory" } }));
    const volumeMounts = volumes.map(({ name }) => ({ name, mountPath: `/${name}` }));
    const fill = (folder: string): string => `dd if=/dev/zero of=/${folder}/x bs=1M`;
    const script = `${fill("one")}; echo filled; ${forever}`;
    const containers = [
      { name: "main", image, command: ["sh", "-c", script], volumeMounts },
      { name: "beside", image, command: ["sh", "-c", "echo here; exec sleep 10000"] },
    ];
    const spec = { volumes, containers, restartPolicy: "Never" };
    await kube.apply(shellPod("greedy", "", spec));
    await kube.ok("wait", "--for=condition=Ready", "pod/greedy", "--timeout=240s");
    await eventually("a full volume", async () =>
      (await kube.ok("logs", "greedy", "-c", "main")).includes("filled"),
    );
    const inMain = ["exec", "greedy", "-c", "main", "--"];
    assert.match(await kube.ok(...inMain, "df", "/one"), / 100% \/one$/m);
    const cellOfPod = async () => /^(\S+) +greedy /m.exec(await kube.ok("get", "cells"))?.[1];
    const cell = await cellOfPod();
    assert.ok(cell);
    // Together they use more than the pod's limit.
    await kube.kubectl(...inMain, "sh", "-c", fill("two"));
    await eventually("the end of the container", async () => {
      const ended = statusOf(await get("greedy"), "main")?.state?.terminated;
      return ended?.reason === "OOMKilled";
    });
    // The agent that reported it is still running.
    assert.match(await kube.ok("logs", "greedy", "-c", "beside"), /here/);
    assert.equal(await cellOfPod(), cell);
    await kube.ok("delete", "pod", "greedy", "--wait=false");
  });
});
