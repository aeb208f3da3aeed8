// What pods get of their cell's kernel and hardware beside processors, memory and disk, on real machines.
import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
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
        initContainers: [
          container("early", wait, { ...mount("HostToContainer"), restartPolicy: "Always" }),
        ],
        containers: [
          container("mounter", `${mounts}; ${wait}`, { ...mount("Bidirectional"), ...privileged }),
          container("apart", wait, mount("None")),
          container("inner", `mkdir -p /data/inner; mount -t tmpfs tmpfs /data/inner; ${wait}`, {
            ...mount("HostToContainer"),
            ...privileged,
          }),
        ],
      }),
    );
    await kube.ok("wait", "--for=condition=Ready", "pod/mounts", "--timeout=240s");
    const seen = async (name: string): Promise<readonly string[]> => {
      const { stdout } = await kube.kubectl(
        ...["exec", "mounts", "-c", name, "--", "awk", '$2 ~ "^/data/" { print $2 }'],
        "/proc/mounts",
      );
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
});
