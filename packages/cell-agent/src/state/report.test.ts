import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { container, desiredPod } from "../../test/desired-pod.ts";
import { noAllocation } from "./allocation.ts";
import { containersOf, newRecord, type ContainerRecord } from "./container-record.ts";
import { podReport } from "./report.ts";

const view = {
  events: [],
  startTimeMs: 0,
  isEnding: false,
  timingsMs: {},
  isUnprepared: false,
  isReleased: false,
  allocation: noAllocation,
};

describe("podReport()", () => {
  // kubectl shows this as "Init:0/1". With another reason it would show "Init:ContainerCreating".
  it("lets all containers of a pod that has init containers wait for its initialisation", () => {
    const reasons = (initContainers: string[]): (string | undefined)[] => {
      const pod = desiredPod({ initContainers: initContainers.map((name) => container(name)) });
      const containers = containersOf(pod).map(({ desired, kind }) => newRecord(desired, kind));
      const report = podReport({ ...view, pod, containers });
      return [...report.initContainers, ...report.containers].map(({ waiting }) => waiting?.reason);
    };
    assert.deepEqual(reasons(["init"]), ["PodInitializing", "PodInitializing"]);
    assert.deepEqual(reasons([]), ["ContainerCreating"]);
  });

  // A client that reads a higher number takes the state for that of the new run.
  it("counts a restart when the new run has begun", () => {
    const pod = desiredPod({ containers: [container("main")] });
    const [main] = containersOf(pod).map(({ desired, kind }) => newRecord(desired, kind));
    assert.ok(main);
    const report = (attempt: number, startedAtMs?: number) => {
      const run = {
        id: `run-${attempt}`,
        attempt,
        image: "image",
        imageId: "id",
        stopSignal: "SIGTERM",
        logDirectory: "logs",
        startedAtMs,
      };
      const records = [{ ...main, saved: { ...main.saved, run } }];
      const [one] = podReport({ ...view, pod, containers: records }).containers;
      return { count: one?.restartCount, id: one?.containerId };
    };
    const [first, second] = [report(0, 1000), report(1, 2000)];
    assert.deepEqual([first.count, second.count], [0, 1]);
    assert.notEqual(first.id, second.id);
    assert.deepEqual(report(0), { count: 0, id: undefined });
    assert.deepEqual(report(1), first);
  });

  it("shows how the last run ended while the next one is being created, unless something holds it up", () => {
    const pod = desiredPod({ containers: [container("main")] });
    const [main] = containersOf(pod).map(({ desired, kind }) => newRecord(desired, kind));
    assert.ok(main);
    const exit = { exitCode: 1, reason: "Error", finishedAt: "2026-01-01T00:00:00Z" };
    const run = {
      id: "run-1",
      attempt: 1,
      image: "image",
      imageId: "id",
      stopSignal: "SIGTERM",
      logDirectory: "logs",
    };
    const report = (more: Partial<ContainerRecord>, startedAtMs?: number) => {
      const saved = { ...main.saved, run: { ...run, startedAtMs }, lastTerminated: exit };
      const containers = [{ ...main, saved, ...more }];
      const { waiting, running, terminated, lastTerminated } =
        podReport({ ...view, pod, containers }).containers[0] ?? {};
      return { waiting, running, terminated, lastTerminated };
    };
    const none = { waiting: undefined, running: undefined, terminated: undefined };
    assert.deepEqual(report({}), { ...none, terminated: exit, lastTerminated: undefined });
    const waiting = { reason: "CreateContainerConfigError" };
    assert.deepEqual(report({ waiting }), { ...none, waiting, lastTerminated: exit });
    const running = { startedAt: "1970-01-01T00:00:01Z" };
    assert.deepEqual(report({}, 1000), { ...none, running, lastTerminated: exit });
  });

  it("takes no running init or debugging container for ready, as a kubelet takes none", () => {
    const one = (name: string) => container(name);
    const sidecar = container("sidecar", { restartPolicy: "Always" });
    const pod = desiredPod({
      initContainers: [one("init"), sidecar],
      containers: [one("main")],
      ephemeralContainers: [one("debugger")],
    });
    const run = {
      id: "run",
      attempt: 0,
      image: "image",
      imageId: "id",
      stopSignal: "SIGTERM",
      logDirectory: "logs",
      startedAtMs: 0,
    };
    const containers = containersOf(pod).map(({ desired, kind }) =>
      newRecord(desired, kind, { name: desired.name, run, started: true, ready: true }),
    );
    const {
      initContainers,
      containers: main,
      ephemeralContainers,
    } = podReport({
      ...view,
      pod,
      containers,
    });
    assert.deepEqual(
      [...initContainers, ...main, ...ephemeralContainers].map(({ ready }) => ready),
      [false, true, true, false],
    );
  });

  it("shares 12 KiB among the termination messages of all containers, as a kubelet does", () => {
    const names = Array.from({ length: 12 }, (_, n) => `c${n}`);
    const pod = desiredPod({ containers: names.map((name) => container(name)) });
    const exit = {
      exitCode: 1,
      reason: "Error",
      message: "m".repeat(4096),
      finishedAt: "2026-01-01T00:00:00Z",
    };
    const records = containersOf(pod).map(({ desired, kind }) => {
      const record = newRecord(desired, kind);
      return { ...record, saved: { ...record.saved, lastTerminated: exit } };
    });
    for (const one of podReport({ ...view, pod, containers: records }).containers)
      assert.equal(one.lastTerminated?.message, "m".repeat(1024));
  });
});
