// What pods can use of their cell's kernel and hardware in addition to CPUs, memory and disk, on real machines.
import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { cluster as own } from "./cluster-number.ts";
import { cluster, eventually, shellPod, type Cluster } from "./cluster.ts";

const image = "kip.local/demo:latest";

describe("mounts, huge pages and devices of a cell", () => {
  let kube: Cluster;

  before(async () => {
    kube = await cluster("devices");
  });

  it("mounts of one container are seen in another that wants to, and in no other", async () => {
    const mount = (mountPropagation: string): object => ({
      volumeMounts: [{ name: "data", mountPath: "/data", mountPropagation }],
    });
    const wait = "while :; do sleep 1; done";
    const container = (name: string, script: string, more: object): object => ({
      name,
      image,
      command: ["sh", "-c", script],
      ...more,
    });
    const privileged = { securityContext: { privileged: true } };
    const mounts =
      "mkdir -p /data/made && mount -t tmpfs tmpfs /data/made && touch /data/made/file";
    await kube.apply(
      shellPod("mounts", "", {
        volumes: [{ name: "data", emptyDir: {} }],
        // Started first, because a container always sees mounts that exist at its start, whatever its mount propagation.
        initContainers: [
          container("early", wait, { ...mount("HostToContainer"), restartPolicy: "Always" }),
          container("apart", wait, { ...mount("None"), restartPolicy: "Always" }),
        ],
        containers: [
          container("mounter", `${mounts}; ${wait}`, { ...mount("Bidirectional"), ...privileged }),
          container("inner", `mkdir -p /data/inner; mount -t tmpfs tmpfs /data/inner; ${wait}`, {
            ...mount("HostToContainer"),
            ...privileged,
          }),
        ],
      }),
    );
    await kube.ok("wait", "--for=condition=Ready", "pod/mounts", "--timeout=240s");
    const seen = async (name: string): Promise<readonly string[]> => {
      const script = "awk '$2 ~ \"^/data/\" { print $2 }' /proc/mounts";
      const stdout = await kube.ok("exec", "mounts", "-c", name, "--", "sh", "-c", script);
      return stdout.split("\n").filter((line) => line !== "");
    };
    await eventually("the mount in a container that was there before", async () =>
      (await seen("early")).includes("/data/made"),
    );
    await eventually("the mount of the container that keeps its own", async () =>
      (await seen("inner")).includes("/data/inner"),
    );
    assert.deepEqual(await seen("early"), ["/data/made"]);
    assert.deepEqual(await seen("apart"), []);
    await kube.ok("exec", "mounts", "-c", "early", "--", "test", "-e", "/data/made/file");
    await kube.ok("delete", "pod", "mounts", "--wait=false");
  });

  it("reserves huge pages for a pod, and limits what it uses", async () => {
    const wait = "while :; do sleep 1; done";
    const pages = { memory: "32Mi", "hugepages-2Mi": "16Mi" };
    const container = (name: string, more: object): object => ({
      name,
      image,
      command: ["sh", "-c", wait],
      volumeMounts: [{ name: "huge", mountPath: "/huge" }],
      ...more,
    });
    await kube.apply(
      shellPod("huge", "", {
        volumes: [{ name: "huge", emptyDir: { medium: "HugePages-2Mi" } }],
        containers: [
          container("user", { resources: { limits: pages, requests: pages } }),
          container("other", {}),
        ],
      }),
    );
    await kube.ok("wait", "--for=condition=Ready", "pod/huge", "--timeout=240s");
    const exec = async (container: string, script: string): Promise<string> => {
      const args = ["exec", "huge", "-c", container, "--", "sh", "-c", `{ ${script}; } 2>&1; true`];
      return (await kube.ok(...args)).trim();
    };
    const pool = "awk '/HugePages_Total|HugePages_Free/ { print $2 }' /proc/meminfo";
    assert.equal(await exec("user", pool), "8\n8");
    assert.match(await exec("user", "grep ' /huge ' /proc/mounts"), /hugetlbfs .*pagesize=2M/);
    const limits = "cat /sys/fs/cgroup/hugetlb.2MB.max /sys/fs/cgroup/hugetlb.2MB.rsvd.max";
    assert.equal(await exec("user", limits), "16777216\n16777216");
    assert.equal(await exec("other", limits), "0\n0");
    assert.equal(await exec("user", "fallocate -l 4M /huge/file && echo made"), "made");
    assert.equal(await exec("user", pool), "8\n6");
    assert.match(await exec("other", "fallocate -l 2M /huge/other && echo made"), /No space left/);
    await kube.ok("delete", "pod", "huge", "--wait=false");
    const gigantic = { memory: "32Mi", "hugepages-1Gi": "1Gi" };
    const resources = { limits: gigantic, requests: gigantic };
    await kube.apply(shellPod("gigantic", "true", { nodeName: own.name }, { resources }));
    await kube.ok("wait", "--for=jsonpath={.status.phase}=Failed", "pod/gigantic", "--timeout=60s");
    assert.match(
      await kube.ok("get", "pod", "gigantic", "-o", "jsonpath={.status.reason}: {.status.message}"),
      /^OutOfhugepages-1Gi: Pod was rejected: Node didn't have enough resource: hugepages-1Gi, requested: 1073741824, used: 0, capacity: 0$/,
    );
    await kube.ok("delete", "pod", "gigantic", "--wait=false");
  });

  it("gives containers the devices that they ask for, on a machine of a type that has them", async () => {
    const wait = "while :; do sleep 1; done";
    const container = (name: string, more: object = {}): object => ({
      name,
      image,
      command: ["sh", "-c", wait],
      ...more,
    });
    const cards = (count: string): object => {
      const amounts = { "example.com/card": count };
      return { resources: { limits: amounts, requests: amounts } };
    };
    await kube.apply(
      shellPod("cards", "", {
        ...driver(["hwrng", "kmsg"]),
        containers: [
          container("first", cards("1")),
          container("second", cards("1")),
          container("none"),
        ],
      }),
      // Bound to the node directly. The node offers two, which the other pod has, so the scheduler would make this pod wait.
      shellPod("lacking", "", {
        nodeName: own.name,
        ...driver(["hwrng"]),
        containers: [container("main", cards("2"))],
      }),
    );
    await kube.ok("wait", "--for=condition=Ready", "pod/cards", "--timeout=240s");
    const exec = async (name: string, script: string): Promise<string> => {
      const args = ["exec", "cards", "-c", name, "--", "sh", "-c", `{ ${script}; } 2>&1; true`];
      return (await kube.ok(...args)).trim();
    };
    const look = 'ls /dev | grep card; echo "$CARD $DRIVER"; cat /etc/driver';
    assert.equal(await exec("first", look), "card-hwrng\nhwrng yes\nmade by a hook");
    assert.equal(await exec("second", look), "card-kmsg\nkmsg yes\nmade by a hook");
    assert.match(await exec("none", look), /^cat: .*No such file/);
    assert.equal(await exec("first", "head -c 4 /dev/card-hwrng | wc -c"), "4");
    // The file only allows the second container to write. Other containers may not use a device node that they create.
    assert.equal(await exec("second", "echo test >/dev/card-kmsg && echo written"), "written");
    assert.match(await exec("second", "head -c 1 /dev/card-kmsg"), /not permitted/);
    assert.match(await exec("none", "mknod /tmp/x c 10 183 && head -c 1 /tmp/x"), /not permitted/);
    const type = "jsonpath={.items[?(@.spec.podRef.name=='cards')].spec.instanceType}";
    assert.equal(await kube.ok("get", "cells", "-o", type), "local.small");
    await kube.ok("wait", "--for=jsonpath={.status.phase}=Failed", "pod/lacking", "--timeout=240s");
    assert.equal(
      await kube.ok("get", "pod", "lacking", "-o", "jsonpath={.status.reason}: {.status.message}"),
      "UnexpectedAdmissionError: Pod was rejected: Allocate failed due to requested number of devices unavailable for example.com/card. Requested: 2, Available: 1, which is unexpected",
    );
    await kube.ok("delete", "pod", "cards", "lacking", "--wait=false");
  });
});

/** An init container that exposes devices of the cell as cards, like a driver that is installed on a node. */
function driver(nodes: readonly string[]): object {
  const devices = nodes.map((name) => ({
    name,
    containerEdits: {
      env: [`CARD=${name}`],
      deviceNodes: [
        {
          path: `/dev/card-${name}`,
          hostPath: `/dev/${name}`,
          permissions: name === "kmsg" ? "w" : "rw",
        },
      ],
    },
  }));
  const hook = ["sh", "-c", "echo made by a hook >/run/driver"];
  const file = {
    cdiVersion: "0.8.0",
    kind: "example.com/card",
    devices,
    containerEdits: {
      env: ["DRIVER=yes"],
      mounts: [{ hostPath: "/run/driver", containerPath: "/etc/driver", options: ["ro", "bind"] }],
      hooks: [{ hookName: "createRuntime", path: "/bin/sh", args: hook }],
    },
  };
  return {
    volumes: [{ name: "run", hostPath: { path: "/run" } }],
    initContainers: [
      {
        name: "driver",
        image,
        command: [
          "sh",
          "-c",
          'mkdir -p /cell/cdi; touch /cell/driver; echo "$FILE" >/cell/cdi/card.json',
        ],
        env: [{ name: "FILE", value: JSON.stringify(file) }],
        volumeMounts: [{ name: "run", mountPath: "/cell" }],
      },
    ],
  };
}
