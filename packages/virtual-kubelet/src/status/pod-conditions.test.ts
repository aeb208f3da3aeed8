import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Pod } from "@kip/k8s-types";
import { podWith } from "@kip/k8s-types/testing";
import { assertScales } from "@kip/testing";
import { containerStatus, goneStatuses, waitingStatuses } from "./container-statuses.ts";
import { podConditions } from "./pod-conditions.ts";
import { qosClass } from "./qos-class.ts";

const now = "2026-01-01T00:00:00Z";
const earlier = "2025-01-01T00:00:00Z";
const pod = podWith({
  metadata: { name: "web" },
  spec: {
    initContainers: [{ name: "init" }],
    containers: [{ name: "main" }],
    readinessGates: [{ conditionType: "lb" }],
  },
});
const ready = [{ name: "main", ready: true, restartCount: 0, image: "", imageID: "" }];
const initDone = [
  {
    name: "init",
    ready: true,
    restartCount: 0,
    image: "",
    imageID: "",
    state: { terminated: { exitCode: 0 } },
  },
];

function statusOf(conditions: ReturnType<typeof podConditions>, type: string) {
  const { status, reason, message } = conditions.find((each) => each.type === type) ?? {};
  return { status, reason, message };
}

describe("podConditions()", () => {
  it("names the containers that a starting pod waits for", () => {
    const conditions = podConditions(pod, { phase: "Pending", ...waitingStatuses(pod), now });
    assert.deepEqual(statusOf(conditions, "Initialized"), {
      status: "False",
      reason: "ContainersNotInitialized",
      message: "containers with incomplete status: [init]",
    });
    assert.deepEqual(statusOf(conditions, "Ready"), {
      status: "False",
      reason: "ContainersNotReady",
      message: "containers with unready status: [main]",
    });
  });

  it("waits for readiness gates, keeps transition times, and leaves out conditions of other writers", () => {
    const known: Pod = {
      ...pod,
      status: {
        conditions: [
          { type: "lb", status: "False", lastTransitionTime: earlier },
          { type: "ContainersReady", status: "True", lastTransitionTime: earlier },
          { type: "Ready", status: "True", lastTransitionTime: earlier },
        ],
      },
    };
    const facts = {
      phase: "Running",
      containerStatuses: ready,
      initContainerStatuses: initDone,
      now,
    };
    const conditions = podConditions(known, facts);
    assert.equal(statusOf(conditions, "Ready").reason, "ReadinessGatesNotReady");
    const times = Object.fromEntries(
      conditions.map(({ type, lastTransitionTime }) => [type, lastTransitionTime]),
    );
    assert.equal(times["ContainersReady"], earlier);
    assert.equal(times["Ready"], now);
    assert.equal(times["lb"], undefined);
  });

  it("counts sidecars as containers, and stays initialized when one restarts", () => {
    const withSidecar = podWith({
      spec: {
        initContainers: [{ name: "proxy", restartPolicy: "Always" }],
        containers: [{ name: "main" }],
      },
    });
    const containerStatuses = ready.map((each) => ({ ...each, state: { running: {} } }));
    const facts = (proxy: { readonly ready: boolean; readonly started: boolean }) => ({
      phase: "Running",
      containerStatuses,
      initContainerStatuses: initDone.map((each) => ({
        ...each,
        name: "proxy",
        state: { running: {} },
        ...proxy,
      })),
      now,
    });
    const good = podConditions(withSidecar, facts({ ready: true, started: true }));
    assert.equal(statusOf(good, "Ready").status, "True");
    const bad = podConditions(withSidecar, facts({ ready: false, started: false }));
    assert.deepEqual(statusOf(bad, "Ready"), {
      status: "False",
      reason: "ContainersNotReady",
      message: "containers with unready status: [proxy]",
    });
    assert.equal(statusOf(bad, "Initialized").status, "True");
  });

  it("ends with PodCompleted or PodFailed", () => {
    const facts = { containerStatuses: ready, initContainerStatuses: initDone, now };
    const done = podConditions(pod, { ...facts, phase: "Succeeded" });
    assert.equal(statusOf(done, "Ready").reason, "PodCompleted");
    assert.equal(statusOf(done, "Initialized").status, "True");
    const failed = podConditions(pod, { ...facts, phase: "Failed" });
    assert.equal(statusOf(failed, "ContainersReady").reason, "PodFailed");
  });

  it("has no sandbox after the end of the pod, whatever the provider says", () => {
    const readyToStart = (phase: string, isReadyToStart?: boolean) =>
      statusOf(
        podConditions(pod, { phase, containerStatuses: ready, isReadyToStart, now }),
        "PodReadyToStartContainers",
      ).status;
    assert.equal(readyToStart("Pending"), "False");
    assert.equal(readyToStart("Pending", true), "True");
    for (const phase of ["Succeeded", "Failed"]) {
      assert.equal(readyToStart(phase), "False");
      assert.equal(readyToStart(phase, true), "False");
    }
    assert.equal(readyToStart("Running"), "True");
  });
});

describe("goneStatuses()", () => {
  it("ends running containers with 137 and keeps those that had ended", () => {
    const [main] = ready;
    assert.ok(main);
    const ended = { ...main, name: "ended", state: { terminated: { exitCode: 3 } } };
    const running = { ...main, state: { running: { startedAt: earlier } } };
    const gone = goneStatuses(
      podWith({}),
      { containerStatuses: [running, ended] },
      now,
    ).containerStatuses;
    assert.equal(gone?.[0]?.state?.terminated?.exitCode, 137);
    assert.equal(gone?.[0]?.state?.running, undefined);
    assert.equal(gone?.[0]?.ready, false);
    assert.equal(gone?.[1]?.state?.terminated?.exitCode, 3);
  });
});

describe("qosClass()", () => {
  const withResources = (...resources: object[]): Pod => {
    const containers = resources.map((each, index) => ({ name: `c${index}`, resources: each }));
    return podWith({ spec: { containers } });
  };
  const full = { limits: { cpu: "1", memory: "1Gi" } };

  it("prefers the API server's value, which considers the pod's own resources", () => {
    assert.equal(
      qosClass({ ...withResources({}), status: { qosClass: "Guaranteed" } }),
      "Guaranteed",
    );
  });

  it("distinguishes the three classes", () => {
    assert.equal(qosClass(withResources({})), "BestEffort");
    assert.equal(qosClass(withResources(full)), "Guaranteed");
    const spelled = { ...full, requests: { cpu: "1000m", memory: "1024Mi" } };
    assert.equal(qosClass(withResources(full, spelled)), "Guaranteed");
    assert.equal(qosClass(withResources(full, {})), "Burstable");
    assert.equal(qosClass(withResources({ requests: { cpu: "1" } })), "Burstable");
  });
});

describe("podConditions(), of a large pod", () => {
  it("costs time linear in the number of containers and gates", async () => {
    await assertScales((count) => {
      const names = Array.from({ length: count }, (_, index) => ({
        name: `c${index}`,
        image: "x",
      }));
      const readinessGates = names.map(({ name }) => ({ conditionType: name }));
      const statuses = names.map(({ name }) => ({
        ...containerStatus({ name }, { running: {} }, { ready: true }),
      }));
      const conditions = names.map(({ name }) => ({ type: name, status: "True" }));
      const pod = podWith({
        spec: { containers: names, initContainers: names, readinessGates },
        status: { conditions },
      });
      const facts = {
        phase: "Running",
        initContainerStatuses: statuses,
        containerStatuses: statuses,
        now: "2030-01-01T00:00:00Z",
      };
      return () => podConditions(pod, facts);
    }, 10_000);
  });
});
