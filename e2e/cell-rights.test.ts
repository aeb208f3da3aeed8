// What containers may do on their cell: a shared process namespace, folders of volumes, volumes of images, devices, and a pod
// that forks without end. For each pod, another container or a second check shows the state of the machine.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { cluster, eventually, stateDir, type Cluster } from "./cluster.ts";
import {
  busyboxEntries,
  mirroredHost,
  startImageRegistry,
  type ImageRegistry,
} from "./image-registry.ts";

const demo = "kip.local/demo:latest";
const sleeps = ["sleep", "100000"];
/** Starts processes that stay, until the kernel refuses more. */
const forks =
  "while test ! -e /go; do sleep 1; done; (while :; do sleep 100000 & done); exec sleep 100000";

const images = {
  "open/volumes": {
    entries: [
      ...busyboxEntries(),
      { name: "data/", type: "5" as const, mode: 0o750 },
      { name: "data/file", content: "of the image" },
      { name: "etc/", type: "5" as const },
      { name: "out", type: "2" as const, linkName: "/etc" },
    ],
    config: { Volumes: { "/data": {}, "/new": {}, "/out": {}, "/proc": {}, "/covered": {} } },
  },
};

describe("the rights of containers on their cell", () => {
  let kube: Cluster;
  let registry: ImageRegistry;
  before(async () => {
    kube = await cluster("cell-rights");
    registry = await startImageRegistry(stateDir, images);
    const machine = { name: "machine", hostPath: { path: "/" } };
    const looker = {
      name: "looker",
      image: demo,
      command: sleeps,
      volumeMounts: [{ name: "machine", mountPath: "/machine", readOnly: true }],
    };
    const pod = (name: string, spec: object): object => ({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name },
      spec: { terminationGracePeriodSeconds: 0, ...spec },
    });
    await kube.apply(
      pod("shared", {
        shareProcessNamespace: true,
        securityContext: { fsGroup: 2000 },
        volumes: [machine, { name: "scratch", emptyDir: {} }],
        containers: [
          looker,
          {
            name: "tracer",
            image: demo,
            command: sleeps,
            securityContext: { capabilities: { add: ["SYS_PTRACE"] } },
          },
          {
            name: "user",
            image: demo,
            command: sleeps,
            securityContext: { runAsUser: 1001, runAsNonRoot: true },
            volumeMounts: [
              { name: "scratch", mountPath: "/tmp/a", subPath: "tmp-dir" },
              { name: "scratch", mountPath: "/tmp/b", subPath: "deep/er" },
            ],
          },
        ],
      }),
      pod("host", {
        hostNetwork: true,
        volumes: [machine, { name: "scratch", emptyDir: {} }],
        containers: [
          looker,
          {
            name: "volumes",
            image: `${mirroredHost}/open/volumes:1`,
            command: ["/bin/busybox", ...sleeps],
            securityContext: { readOnlyRootFilesystem: true },
            volumeMounts: [{ name: "scratch", mountPath: "/covered" }],
          },
          {
            name: "privileged",
            image: demo,
            command: sleeps,
            securityContext: { privileged: true },
          },
        ],
      }),
      pod("forks", {
        volumes: [machine],
        containers: [looker, { name: "bomb", image: demo, command: ["sh", "-c", forks] }],
      }),
    );
    for (const name of ["shared", "host", "forks"])
      await kube.ok("wait", "--for=condition=Ready", `pod/${name}`, "--timeout=300s");
  });
  after(async () => {
    await kube.kubectl("delete", "pod", "--all", "--wait=false");
    await registry[Symbol.asyncDispose]();
  });

  const exec = async (pod: string, container: string, script: string): Promise<string> =>
    (await kube.ok("exec", pod, "-c", container, "--", "sh", "-c", script)).trim();

  it("a shared process namespace's first process has no right and no file of the cell's, for one with SYS_PTRACE", async () => {
    assert.equal(await exec("shared", "tracer", "cat /proc/1/comm"), "pause");
    assert.equal(await exec("shared", "tracer", "ls -A /proc/1/root/"), "pause");
    const status = await exec("shared", "tracer", "cat /proc/1/status");
    for (const set of ["Inh", "Prm", "Eff", "Bnd", "Amb"])
      assert.match(status, new RegExp(`^Cap${set}:\\s*0{16}$`, "m"));
    assert.match(status, /^NoNewPrivs:\s*1$/m);
    const network = async (process: string): Promise<string> =>
      await exec("shared", "tracer", `readlink /proc/${process}/ns/net`);
    assert.equal(await network("1"), await network("self"));
  });

  it("a shared process namespace leaves no zombies", async () => {
    await exec("shared", "tracer", "( ( exec sleep 0.2 ) & )");
    await eventually("the orphan to be reaped", async () => {
      const found = await exec("shared", "looker", "grep -l '^State:.Z' /proc/[0-9]*/status; true");
      return found === "";
    });
  });

  it("a user writes to the folders of a subPath of an emptyDir with fsGroup", async () => {
    for (const folder of ["/tmp/a", "/tmp/b"]) {
      await exec("shared", "user", `echo mine >${folder}/file`);
      assert.equal(await exec("shared", "user", `stat -c %a:%g ${folder}`), "2777:2000");
    }
  });

  it("VOLUME of an image can be written to, has the image's content, and nothing of the cell's", async () => {
    // The last one is a link to /etc, where the pod's own files are.
    const all = "/bin/busybox ls -A /data /new /out /covered";
    assert.equal(
      await exec("host", "volumes", all),
      "/covered:\n\n/data:\nfile\n\n/new:\n\n/out:\nhostname\nhosts\nresolv.conf",
    );
    await exec("host", "volumes", "for f in data new covered; do echo x >/$f/new || exit 1; done");
    assert.equal(await exec("host", "volumes", "stat -c %a /data"), "750");
    assert.match(await exec("host", "volumes", "cat /proc/self/mountinfo"), / - proc proc /);
    const { status } = await kube.kubectl("exec", "host", "-c", "volumes", "--", "touch", "/no");
    assert.notEqual(status, 0);
  });

  it("a privileged container has the devices of its cell", async () => {
    const devices = "cd $0; find . -type b -o -type c | sort";
    const list = async (container: string, folder: string): Promise<readonly string[]> =>
      (await exec("host", container, devices.replace("$0", folder))).split("\n");
    const own = ["console", "full", "null", "ptmx", "random", "tty", "urandom", "zero"];
    const skipped = (name: string): boolean =>
      own.includes(name.slice(2)) || /^\.\/(fd|mqueue|pts|shm)\//.test(name);
    const machine = (await list("looker", "/machine/dev")).filter((name) => !skipped(name));
    const seen = (await list("privileged", "/dev")).filter((name) => !skipped(name));
    assert.ok(machine.includes("./vda"));
    assert.deepEqual(seen, machine);
  });

  it("a pod with the cell's network has the cell's hosts file", async () => {
    const own = await exec("host", "looker", "cat /machine/etc/hosts");
    const header = "# Kubernetes-managed hosts file (host network).";
    assert.equal(await exec("host", "privileged", "cat /etc/hosts"), `${header}\n${own}`);
  });

  it("fork bomb: a container that forks without end leaves its agent what it needs to end the pod", async () => {
    const kernel = await exec("forks", "looker", "cat /proc/sys/kernel/threads-max");
    const limit = await exec("forks", "looker", "cat /machine/sys/fs/cgroup/kip/pod/pids.max");
    assert.ok(Number(limit) < Number(kernel), `${limit} of ${kernel}`);
    const cell = async (): Promise<string> => {
      const path = "jsonpath={.items[?(@.spec.podRef.name=='forks')].metadata.name}";
      return await kube.ok("get", "cells", "-o", path);
    };
    const first = await cell();
    await exec("forks", "bomb", "touch /go");
    // Until it has reached its limit of processes or memory.
    await eventually(
      "the container to be stopped by the kernel",
      async () => {
        const forks = "sleep 1 | sleep 1 | sleep 1 | sleep 1";
        const { status } = await kube.kubectl(
          "exec",
          "forks",
          "-c",
          "bomb",
          "--",
          "sh",
          "-c",
          forks,
        );
        // If it was killed for lack of memory, it was restarted and no longer forks.
        const restarts = "-o=jsonpath={.status.containerStatuses[?(@.name=='bomb')].restartCount}";
        return status !== 0 || (await kube.ok("get", "pod", "forks", restarts)) !== "0";
      },
      600_000,
    );
    // An emulated CPU may be busy for so long that the connection ends. The agent then returns at once.
    await eventually(
      "an answer of the agent",
      async () => (await kube.kubectl("logs", "forks", "-c", "looker")).status === 0,
    );
    assert.equal(await cell(), first);
    await kube.ok("delete", "pod", "forks", "--timeout=240s");
  });
});
