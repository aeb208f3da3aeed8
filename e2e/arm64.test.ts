// Pods on arm64 cells as a user gets them, with kip up --architecture. On a computer of another architecture they are emulated.
// Uses its own cluster. apps/itzo/test/pod.arm64.test.ts tests what such a cell does with a pod.
import assert from "node:assert/strict";
import { rm } from "node:fs/promises";
import { after, before, describe, it } from "node:test";
import { isWholeRun } from "@kip/testing";
import { whyNoArm64 } from "../apps/itzo/test/support/why-no-arm64.ts";
import { cluster, emptyFolder, kipCommand, shellPod, stateDir, type Cluster } from "./cluster.ts";

const skip = isWholeRun ? whyNoArm64() : "takes minutes: npm run test:e2e:all";
const work = `${stateDir}-arm64`;
const clusterFlags = [
  `--state-dir=${work}/state`,
  `--kubeconfig=${work}/kubeconfig`,
  "--namespace-name=kip-e2e-arm",
];
const flags = {
  status: clusterFlags,
  up: [
    ...clusterFlags,
    "--architecture=arm64",
    "--templates=false",
    "--port=16844",
    "--registry-port=15844",
    "--network-range=198.18.52.0/22",
    "--service-range=10.119.0.0/16",
    "--node-name=kip-e2e-arm",
  ],
};
const script =
  "echo on $(uname -m); trap 'echo stopped; exit 0' TERM; httpd -p 8080 -h /site; while :; do sleep 1; done";

describe("kip up --architecture=arm64", { skip }, () => {
  let kube: Cluster;
  before(async () => {
    await emptyFolder(work, clusterFlags);
    kube = await cluster("arm64", flags);
  });
  after(async () => {
    const down = await kipCommand("down", ...clusterFlags);
    assert.equal(down.status, 0, down.stderr);
    await rm(work, { recursive: true });
  });

  it("runs a pod that asks for arm64 on a cell with arm64, until it is deleted", async () => {
    const readinessProbe = { httpGet: { port: 8080 }, timeoutSeconds: 60 };
    const nodeSelector = { "node.elotl.co/arch-arm64": "" };
    await kube.apply(shellPod("arm", script, { nodeSelector }, { readinessProbe }));
    await kube.ok("wait", "--for=condition=Ready", "pod/arm", "--timeout=900s");
    assert.equal(await kube.ok("logs", "arm"), "on aarch64\n");
    assert.equal(await kube.ok("exec", "arm", "--", "uname", "-m"), "aarch64\n");
    assert.match(await kube.ok("exec", "arm", "--", "cat", "/proc/1/status"), /^Seccomp:\t0$/m);
    const types = ["get", "cells", "-o", "jsonpath={.items[*].spec.instanceType}"];
    assert.equal(await kube.ok(...types), "local-arm64.nano");
    await kube.ok("delete", "pod", "arm", "--timeout=300s");
    await kube.ok("wait", "--for=delete", "cells", "--all", "--timeout=120s");
  });

  it("runs other pods on cells with this computer's processor", async () => {
    await kube.apply(shellPod("plain", script));
    await kube.ok("wait", "--for=condition=Ready", "pod/plain", "--timeout=300s");
    assert.doesNotMatch(await kube.ok("logs", "plain"), /aarch64/);
  });
});
