import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { cluster, eventually, machineProcesses, type Cluster } from "./cluster.ts";
import { cluster as own } from "./cluster-number.ts";

const image = "kip.local/demo:latest";

describe("workloads", () => {
  let kube: Cluster;
  before(async () => {
    kube = await cluster("workloads");
  });

  it("scales a Deployment 1 → 2 → 0", async () => {
    await kube.ok("create", "deployment", "web", `--image=${image}`);
    await kube.ok("rollout", "status", "deployment/web", "--timeout=240s");
    await kube.ok("scale", "deployment/web", "--replicas=2");
    await kube.ok(
      "wait",
      "--for=jsonpath={.status.readyReplicas}=2",
      "deployment/web",
      "--timeout=240s",
    );
    assert.equal(machineProcesses().length, 2);
    await kube.ok("scale", "deployment/web", "--replicas=0");
    await eventually(
      "all pods to go",
      async () => (await kube.ok("get", "pods", "-o", "name")) === "",
    );
    await eventually("all machines to go", () => machineProcesses().length === 0);
    await kube.ok("delete", "deployment", "web");
  });

  it("runs a Job to its end and lets its logs be read", async () => {
    await kube.ok("create", "job", "sum", `--image=${image}`, "--", "sh", "-c", "echo $((40 + 2))");
    await kube.ok("wait", "--for=condition=Complete", "job/sum", "--timeout=240s");
    assert.equal(await kube.ok("logs", "job/sum"), "42\n");
    await eventually("its machine to go", () => machineProcesses().length === 0);
  });

  it("fails a Job that fails", async () => {
    await kube.apply({
      apiVersion: "batch/v1",
      kind: "Job",
      metadata: { name: "broken" },
      spec: {
        backoffLimit: 0,
        template: {
          spec: {
            restartPolicy: "Never",
            containers: [{ name: "main", image, command: ["sh", "-c", "echo no; exit 5"] }],
          },
        },
      },
    });
    await kube.ok("wait", "--for=condition=Failed", "job/broken", "--timeout=240s");
    const code = await kube.ok(
      "get",
      "pods",
      "-l",
      "job-name=broken",
      "-o",
      "jsonpath={.items[0].status.containerStatuses[0].state.terminated.exitCode}",
    );
    assert.equal(code, "5");
  });

  it("gives pods environment, files and init containers", async () => {
    await kube.ok("create", "configmap", "settings", "--from-literal=color=blue");
    await kube.ok("create", "secret", "generic", "keys", "--from-literal=token=s3cret");
    await kube.apply({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "inputs", labels: { app: "inputs" } },
      spec: {
        restartPolicy: "Never",
        initContainers: [
          {
            name: "init",
            image,
            command: ["sh", "-c", "echo prepared > /shared/state"],
            volumeMounts: [{ name: "work", mountPath: "/shared" }],
          },
        ],
        containers: [
          {
            name: "main",
            image,
            command: [
              "sh",
              "-c",
              "cat /shared/state; echo $COLOR $(TOKEN) $POD_IP; cat /settings/color; echo; cat /keys/token; echo; test -s /var/run/secrets/kubernetes.io/serviceaccount/token && echo has token; hostname",
            ],
            env: [
              { name: "COLOR", valueFrom: { configMapKeyRef: { name: "settings", key: "color" } } },
              { name: "TOKEN", valueFrom: { secretKeyRef: { name: "keys", key: "token" } } },
              { name: "POD_IP", valueFrom: { fieldRef: { fieldPath: "status.podIP" } } },
            ],
            volumeMounts: [
              { name: "work", mountPath: "/shared" },
              { name: "settings", mountPath: "/settings" },
              { name: "keys", mountPath: "/keys" },
            ],
          },
        ],
        volumes: [
          { name: "work", emptyDir: {} },
          { name: "settings", configMap: { name: "settings" } },
          { name: "keys", secret: { secretName: "keys" } },
        ],
      },
    });
    await kube.ok(
      "wait",
      "--for=jsonpath={.status.phase}=Succeeded",
      "pod/inputs",
      "--timeout=240s",
    );
    const ip = await kube.ok("get", "pod", "inputs", "-o", "jsonpath={.status.podIP}");
    assert.equal(
      await kube.ok("logs", "inputs"),
      `prepared\nblue s3cret ${ip}\nblue\ns3cret\nhas token\ninputs\n`,
    );
  });

  it("says why an image cannot be had", async () => {
    await kube.ok("run", "ghost", "--image=kip.local/ghost:1", "--restart=Never");
    await eventually(
      "the reason",
      async () => /ErrImagePull|ImagePullBackOff/.test(await kube.ok("get", "pod", "ghost")),
      240_000,
    );
    assert.match(await kube.ok("describe", "pod", "ghost"), /Failed.*kip\.local\/ghost:1/);
    await kube.ok("delete", "pod", "ghost");
    await kube.ok("run", "refused", "--image=127.0.0.1:9/nobody:1", "--restart=Never");
    await eventually(
      "the reason",
      async () => /ErrImagePull|ImagePullBackOff/.test(await kube.ok("get", "pod", "refused")),
      240_000,
    );
    await kube.ok("delete", "pod", "refused");
  });

  it("says why no machine fits, and starts nothing", async () => {
    await kube.apply({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "giant" },
      spec: {
        nodeName: own.name,
        containers: [
          {
            name: "main",
            image,
            resources: { limits: { memory: "90Gi" }, requests: { memory: "1Mi" } },
          },
        ],
      },
    });
    await eventually("the event", async () =>
      (await kube.ok("describe", "pod", "giant")).includes("NoInstanceTypeFits"),
    );
    assert.match(await kube.ok("describe", "pod", "giant"), /the biggest on offer is local\.\w+/);
    assert.equal(await kube.ok("get", "pod", "giant", "-o", "jsonpath={.status.phase}"), "Pending");
    await kube.ok("delete", "pod", "--all", "--timeout=120s");
    await eventually("all machines to go", () => machineProcesses().length === 0);
    assert.equal(await kube.ok("get", "cells", "-o", "name"), "");
  });
});
