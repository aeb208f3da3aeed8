import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { podWith } from "@kip/k8s-types/testing";
import { podStatus, type ContainerRun } from "./pod-status.ts";

const nowMs = Date.UTC(2030, 0, 1);
const pod = podWith({
  metadata: { uid: "u" },
  spec: { containers: ["a", "b"].map((name) => ({ name, image: `${name}:1` })) },
});
const running: ContainerRun = { startedAtMs: nowMs };
const ended = (exitCode: number): ContainerRun => ({
  startedAtMs: nowMs,
  ended: { exitCode, finishedAtMs: nowMs + 1000 },
});

describe("podStatus()", () => {
  const cases: readonly (readonly [Readonly<Record<string, ContainerRun>>, string, string])[] = [
    [{}, "Pending", "False"],
    [{ a: running }, "Pending", "False"],
    [{ a: running, b: running }, "Running", "True"],
    [{ a: running, b: { ...running, isReady: false } }, "Running", "False"],
    [{ a: running, b: ended(1) }, "Running", "False"],
    [{ a: ended(0), b: ended(0) }, "Succeeded", "False"],
    [{ a: ended(0), b: ended(3) }, "Failed", "False"],
  ];
  for (const [runs, phase, ready] of cases)
    it(`is ${phase}, Ready=${ready}, with ${JSON.stringify(runs)}`, () => {
      const status = podStatus(pod, { runs: new Map(Object.entries(runs)), nowMs });
      assert.equal(status.phase, phase);
      assert.equal(status.conditions?.find(({ type }) => type === "Ready")?.status, ready);
    });

  it("is Failed if an init container has failed and is not restarted", () => {
    const initContainers = [{ name: "init" }, { name: "sidecar", restartPolicy: "Always" }];
    const phaseOf = (restartPolicy: string, runs: Readonly<Record<string, ContainerRun>>) => {
      const spec = { restartPolicy, initContainers, containers: [{ name: "main" }] };
      return podStatus(podWith({ spec }), { runs: new Map(Object.entries(runs)), nowMs }).phase;
    };
    assert.equal(phaseOf("Never", { init: ended(1) }), "Failed");
    assert.equal(phaseOf("OnFailure", { init: ended(1) }), "Pending");
    assert.equal(phaseOf("Never", { init: ended(0), sidecar: ended(1) }), "Pending");
    const done = { init: ended(0), main: ended(0) };
    assert.equal(phaseOf("Never", { ...done, sidecar: ended(143) }), "Succeeded");
  });

  it("has init and ephemeral containers where the pod has them", () => {
    const spec = {
      containers: [],
      initContainers: [{ name: "i" }],
      ephemeralContainers: [{ name: "e" }],
    };
    const runs = new Map([
      ["i", ended(0)],
      ["e", running],
    ]);
    const status = podStatus(podWith({ spec }), { runs, nowMs });
    assert.equal(status.initContainerStatuses?.[0]?.state?.terminated?.reason, "Completed");
    assert.ok(status.ephemeralContainerStatuses?.[0]?.state?.running);
  });

  it("has the ends of containers, and the addresses of the pod", () => {
    const status = podStatus(pod, {
      runs: new Map([["a", ended(3)]]),
      podIp: "192.0.2.1",
      hostIp: "192.0.2.2",
      nowMs,
    });
    assert.deepEqual(status.containerStatuses?.[0]?.state?.terminated, {
      startedAt: "2030-01-01T00:00:00Z",
      finishedAt: "2030-01-01T00:00:01Z",
      exitCode: 3,
      reason: "Error",
    });
    assert.equal(status.containerStatuses[1]?.state?.waiting?.reason, "ContainerCreating");
    assert.deepEqual([status.podIPs, status.hostIP], [[{ ip: "192.0.2.1" }], "192.0.2.2"]);
    assert.equal(status.startTime, "2030-01-01T00:00:00Z");
  });
});
