// What a pod may rely on because every kubelet does it so, on real machines.
import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { cluster as own } from "./cluster-number.ts";
import { cluster, eventually, shellPod, type Cluster } from "./cluster.ts";

const image = "kip.local/demo:latest";

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
          lifecycle: { postStart: { exec: { command: ["sh", "-c", "sleep 1; touch /hook"] } } },
        },
      ),
    );
    await kube.ok("wait", "--for=condition=Ready", "pod/web", "--timeout=240s");
    await kube.ok("exec", "web", "--", "test", "-e", "/hook");
    const log = await kube.ok("logs", "web");
    assert.match(log, /^web\.sub\.rules\.svc\.cluster\.local\n.*Read-only file system\n$/);
    const look = ["--image", image, "--target=main", "-c", "look", "--", "sh", "-c", "ps"];
    await kube.ok("debug", "web", ...look);
    await eventually("the debugging container's log", async () =>
      (await kube.kubectl("logs", "web", "-c", "look")).stdout.includes("touch /settings/new"),
    );
    await kube.ok("delete", "pod", "web", "--wait=false");
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
    ];
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
    const cells = await kube.ok("get", "cells", "-o", "jsonpath={.items[*].spec.podRef.name}");
    assert.doesNotMatch(cells, /windows|sysctl|large/);
    await kube.ok("delete", "pod", "windows", "sysctl", "large");
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
