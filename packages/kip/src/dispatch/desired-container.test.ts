import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Container } from "@kip/k8s-types";
import { podWith } from "@kip/k8s-types/testing";
import type { ResolvedPod } from "@kip/virtual-kubelet";
import { desiredContainer } from "./desired-container.ts";

function policyOf(container: Pick<Container, "image" | "imagePullPolicy">): string {
  const whole = { name: "main", ...container };
  const pod = podWith({ spec: { containers: [whole] } });
  const resolved = { pod, env: new Map(), lateEnv: new Map(), files: new Map(), pullSecrets: [] };
  const addresses = { podIPs: [], hostIPs: [] };
  return desiredContainer(resolved satisfies ResolvedPod, whole, addresses).imagePullPolicy;
}

describe("desiredContainer(), by pull policy", () => {
  const digest = `sha256:${"0".repeat(64)}`;
  for (const [image, policy] of [
    ["busybox", "Always"],
    ["busybox:latest", "Always"],
    ["localhost:5000/app", "Always"],
    ["localhost:5000/app:latest", "Always"],
    ["busybox:1.36", "IfNotPresent"],
    ["localhost:5000/app:1", "IfNotPresent"],
    [`r.test/app@${digest}`, "IfNotPresent"],
    [`r.test/app:1@${digest}`, "IfNotPresent"],
  ] as const)
    it(`of ${image} is ${policy} unless the pod says`, () => {
      assert.equal(policyOf({ image }), policy);
      assert.equal(policyOf({ image, imagePullPolicy: "Never" }), "Never");
    });
});

describe("desiredContainer()", () => {
  it("passes probes by gRPC on, and a probe's own grace period", () => {
    const grpc = { port: 50_051, service: "web" };
    const livenessProbe = { grpc, terminationGracePeriodSeconds: 5 };
    const whole = {
      name: "main",
      image: "busybox",
      livenessProbe,
      readinessProbe: { grpc: { port: 1 } },
    };
    const pod = podWith({ spec: { containers: [whole] } });
    const resolved = { pod, env: new Map(), lateEnv: new Map(), files: new Map(), pullSecrets: [] };
    const desired = desiredContainer(resolved, whole, { podIPs: [], hostIPs: [] });
    assert.deepEqual(desired.livenessProbe, livenessProbe);
    assert.deepEqual(desired.readinessProbe, { grpc: { port: 1 } });
  });

  it("passes the target of an ephemeral container on", () => {
    const debug = { name: "debug", image: "busybox", targetContainerName: "main" };
    const pod = podWith();
    const resolved = { pod, env: new Map(), lateEnv: new Map(), files: new Map(), pullSecrets: [] };
    const desired = desiredContainer(resolved, debug, { podIPs: [], hostIPs: [] });
    assert.equal(desired.targetContainer, "main");
  });
});
