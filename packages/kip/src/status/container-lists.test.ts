import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ReportedPod } from "@kip/agent-api";
import type { Pod } from "@kip/k8s-types";
import { reportedLists, waitingLists } from "./container-lists.ts";

const name = "constructor"; // a valid name, which is also a property of every object
const pod = {
  metadata: { name: "p", namespace: "default", uid: "1" },
  spec: { containers: [{ name, image: "a" }] },
} as unknown as Pod; // the fields that are read
const running = { startedAt: "2026-11-27T03:00:00Z" };
const state = {
  agent: {},
  containers: { restartCounts: {}, ended: {} },
  status: undefined,
} as unknown as Parameters<typeof reportedLists>[1]; // the fields that are read

describe("statuses of a container with the name of a property", () => {
  it("counts its restarts", () => {
    const report = {
      phase: "Running",
      initContainers: [],
      ephemeralContainers: [],
      containers: [{ name, ready: true, started: true, restartCount: 2, image: "a", running }],
    } as unknown as ReportedPod; // the fields that are read
    const [status] = reportedLists(report, state, pod).containerStatuses ?? [];
    assert.equal(status?.restartCount, 2);
    assert.deepEqual(status?.state, { running });
  });

  it("waits before the first report, and where a report lacks it", () => {
    const report = { initContainers: [], ephemeralContainers: [], containers: [] };
    const none = report as unknown as ReportedPod; // the fields that are read
    for (const lists of [waitingLists(state, pod), reportedLists(none, state, pod)]) {
      const [status] = lists.containerStatuses ?? [];
      assert.equal(status?.state?.waiting?.reason, "ContainerCreating");
    }
  });
});

describe("IDs of containers", () => {
  const onCell = (restartCounts: Readonly<Record<string, number>>) => {
    const ended = { exitCode: 1, finishedAt: running.startedAt, containerId: "crun://run0" };
    const container = { name, image: "a", restartCount: 1, running, containerId: "crun://run1" };
    const report = {
      phase: "Running",
      initContainers: [],
      ephemeralContainers: [],
      containers: [{ ...container, lastTerminated: ended }],
    } as unknown as ReportedPod; // the fields that are read
    const containers = { ...state.containers, restartCounts };
    const [status] = reportedLists(report, { ...state, containers }, pod).containerStatuses ?? [];
    return [status?.containerID, status?.lastState?.terminated?.containerID];
  };

  it("are the agent's on the pod's first cell", () =>
    assert.deepEqual(onCell({}), ["crun://run1", "crun://run0"]));

  it("are not used again on its next cells, whose agents count from the start", () => {
    const ids = [{}, { [name]: 2 }, { [name]: 4 }].flatMap(onCell);
    assert.equal(new Set(ids).size, 6);
    for (const id of ids.slice(2)) assert.match(String(id), /^crun:\/\/[0-9a-f]{32}$/);
  });
});

describe("statuses of ephemeral containers", () => {
  it("are sorted by name, as a kubelet's are", () => {
    const one = (name: string): object => ({ name, image: "a", restartCount: 0, running });
    const report = {
      initContainers: [],
      containers: [],
      ephemeralContainers: ["b", "c", "a"].map(one),
    };
    const lists = reportedLists(report as unknown as ReportedPod, state, pod); // the fields that are read
    assert.deepEqual(
      lists.ephemeralContainerStatuses?.map((each) => each.name),
      ["a", "b", "c"],
    );
  });

  it("are neither ready nor started, as a kubelet's are", () => {
    const debug = { name: "d", image: "a", restartCount: 0, running, ready: true, started: true };
    const report = { initContainers: [], containers: [], ephemeralContainers: [debug] };
    const lists = reportedLists(report as unknown as ReportedPod, state, pod); // the fields that are read
    const [status] = lists.ephemeralContainerStatuses ?? [];
    assert.deepEqual([status?.ready, status?.started], [false, undefined]);
  });
});
