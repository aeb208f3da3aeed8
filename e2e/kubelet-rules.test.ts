// Behaviour that pods rely on because every kubelet has it, on real machines.
import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { cluster as own } from "./cluster-number.ts";
import { cluster, eventually, shellPod, type Cluster } from "./cluster.ts";

const image = "kip.local/demo:latest";

/** CPU in thousandths, and memory in MiB, of the smaller local instance types. */
const sizes: Readonly<Record<string, readonly number[]>> = {
  "local.nano": [1000, 256],
  "local.micro": [1000, 512],
  "local.small": [1000, 1024],
};

describe("a kubelet's rules", () => {
  let kube: Cluster;

  before(async () => {
    kube = await cluster("rules");
  });

  it("hold for host names, files of ConfigMaps, hooks and debugging containers", async () => {
    await kube.ok("create", "configmap", "settings", "--from-literal=color=blue");
    const script = "hostname; touch /settings/new; while :; do sleep 1; done";
    await kube.apply(
      shellPod(
        "web",
        script,
        {
          subdomain: "sub",
          setHostnameAsFQDN: true,
          volumes: [{ name: "settings", configMap: { name: "settings" } }],
        },
        {
          volumeMounts: [{ name: "settings", mountPath: "/settings" }],
          securityContext: { seccompProfile: { type: "RuntimeDefault" } },
          lifecycle: { postStart: { exec: { command: ["sh", "-c", "sleep 1; touch /hook"] } } },
        },
      ),
    );
    await kube.ok("wait", "--for=condition=Ready", "pod/web", "--timeout=240s");
    await kube.ok("exec", "web", "--", "test", "-e", "/hook");
    const log = await kube.ok("logs", "web");
    assert.match(log, /^web\.sub\.rules\.svc\.cluster\.local\n.*Read-only file system\n$/);
    // The kernel's mode for a process whose system calls are filtered. It also applies to exec.
    const modes = await kube.ok(
      "exec",
      "web",
      "--",
      "grep",
      "-h",
      "Seccomp:",
      "/proc/1/status",
      "/proc/self/status",
    );
    assert.equal(modes, "Seccomp:\t2\nSeccomp:\t2\n");
    const unshared = await kube.kubectl("exec", "web", "--", "unshare", "-U", "true");
    assert.match(unshared.stderr, /Operation not permitted/);
    const look = ["--image", image, "--target=main", "-c", "look", "--", "sh", "-c", "ps"];
    await kube.ok("debug", "web", ...look);
    await eventually("the debugging container's log", async () =>
      (await kube.kubectl("logs", "web", "-c", "look")).stdout.includes("touch /settings/new"),
    );
    await kube.ok("delete", "pod", "web", "--wait=false");
  });

  it("hold for namespaces of the node, read-only mounts and limits that are not set", async () => {
    // Every mount of the machine is below "/". So writing to the tmpfs /run must also fail.
    const script = [
      'for one in self/ns/pid self/ns/ipc 1/ns/pid 1/ns/ipc; do readlink /proc/$one; done | tr "\\n" " "; echo',
      "for place in /cell /cell/run /cell/dev/shm; do touch $place/new 2>&1; done",
      'echo "$CPU $MEMORY"; while :; do sleep 1; done',
    ];
    const limit = (name: string, resource: string, divisor: string): object => ({
      name,
      valueFrom: { resourceFieldRef: { resource: `limits.${resource}`, divisor } },
    });
    const mount = { name: "cell", mountPath: "/cell", readOnly: true };
    await kube.apply(
      shellPod(
        "node",
        script.join("\n"),
        {
          hostPID: true,
          hostIPC: true,
          volumes: [{ name: "cell", hostPath: { path: "/" } }],
        },
        {
          volumeMounts: [{ ...mount, recursiveReadOnly: "Enabled" }],
          securityContext: { privileged: true },
          env: [limit("CPU", "cpu", "1m"), limit("MEMORY", "memory", "1Mi")],
        },
      ),
    );
    await kube.ok("wait", "--for=condition=Ready", "pod/node", "--timeout=240s");
    let lines: readonly string[] = [];
    await eventually("the end of its script", async () => {
      lines = (await kube.ok("logs", "node")).split("\n");
      return lines.length > 5;
    });
    const [pid, ipc, nodePid, nodeIpc] = (lines[0] ?? "").split(" ");
    assert.ok(pid !== undefined && pid !== "" && pid === nodePid && ipc === nodeIpc, lines[0]);
    assert.equal(
      lines.filter((line) => line.endsWith("Read-only file system")).length,
      3,
      lines.join("\n"),
    );
    const [cpu, memory] = (lines.at(-2) ?? "").split(" ").map(Number);
    const type = "jsonpath={.items[?(@.spec.podRef.name=='node')].spec.instanceType}";
    assert.deepEqual([cpu, memory], sizes[await kube.ok("get", "cells", "-o", type)]);
    const seen = "jsonpath={.status.containerStatuses[0].volumeMounts[0].recursiveReadOnly}";
    assert.equal(await kube.ok("get", "pod", "node", "-o", seen), "Enabled");
    await kube.ok("delete", "pod", "node", "--wait=false");
  });

  it("keep pods out that the node cannot run, by reason and message", async () => {
    const sysctls = [{ name: "kernel.msgmax", value: "1" }];
    const memory = {
      containers: [{ name: "main", image, resources: { requests: { memory: "9Ti" } } }],
    };
    const refused: readonly [string, object, string][] = [
      ["windows", { os: { name: "windows" } }, "PodOSNotSupported"],
      ["sysctl", { securityContext: { sysctls } }, "SysctlForbidden"],
      ["large", memory, "OutOfmemory"],
      ["armored", { securityContext: { appArmorProfile: { type: "RuntimeDefault" } } }, "AppArmor"],
      ["boxed", { runtimeClassName: "boxed" }, "FailedCreatePodSandBox"],
      [
        "claimed",
        { resourceClaims: [{ name: "device", resourceClaimName: "device" }] },
        "PodFeatureUnsupported",
      ],
      [
        "persistent",
        { volumes: [{ name: "data", persistentVolumeClaim: { claimName: "data" } }] },
        "PodFeatureUnsupported",
      ],
    ];
    const metadata = { name: "boxed" };
    const boxed = { apiVersion: "node.k8s.io/v1", kind: "RuntimeClass", metadata, handler: "kata" };
    await kube.apply(boxed);
    for (const [name, spec] of refused)
      await kube.apply(shellPod(name, "true", { nodeName: own.name, ...spec }));
    for (const [name, , reason] of refused) {
      await kube.ok(
        "wait",
        "--for=jsonpath={.status.phase}=Failed",
        `pod/${name}`,
        "--timeout=60s",
      );
      const status = await kube.ok(
        "get",
        "pod",
        name,
        "-o",
        "jsonpath={.status.reason}: {.status.message}",
      );
      assert.ok(status.startsWith(`${reason}: Pod was rejected: `), status);
      const events = await kube.ok("events", "--for", `pod/${name}`);
      assert.ok(events.includes(`Warning   ${reason} `), events);
    }
    const message = "jsonpath={.status.message}";
    assert.equal(
      await kube.ok("get", "pod", "persistent", "-o", message),
      "Pod was rejected: spec.volumes[0].persistentVolumeClaim: Forbidden: PersistentVolumeClaims are not supported yet; use emptyDir, hostPath, configMap, secret, downwardAPI, image or projected volumes",
    );
    const cells = await kube.ok("get", "cells", "-o", "jsonpath={.items[*].spec.podRef.name}");
    assert.doesNotMatch(cells, /windows|sysctl|large|armored|boxed|claimed|persistent/);
    await kube.ok("delete", "pod", ...refused.map(([name]) => name));
  });

  it("end a pod that has waited for its machine for too long", async () => {
    const annotations = { "pod.elotl.co/instance-type": "none.like-this" };
    const late = shellPod("late", "true", { activeDeadlineSeconds: 2 });
    await kube.apply({ ...late, metadata: { name: "late", annotations } });
    await kube.ok("wait", "--for=jsonpath={.status.phase}=Failed", "pod/late", "--timeout=60s");
    const reason = await kube.ok("get", "pod", "late", "-o", "jsonpath={.status.reason}");
    assert.equal(reason, "DeadlineExceeded");
    await kube.ok("delete", "pod", "late", "--wait=false");
  });
});
