import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ContainerReport, PodReport } from "@kip/agent-api";
import type { ContainerStatus, Pod, PodStatus } from "@kip/k8s-types";
import { cellStateWith } from "../testing/index.ts";
import { reportedEnd, storedEnd } from "./pod-end.ts";

function statuses(count: number, textLength: number): ContainerStatus[] {
  const text = "x".repeat(textLength);
  return Array.from({ length: count }, (_each, index) => ({
    name: `c${index}`,
    ready: false,
    restartCount: 1,
    image: text,
    imageID: text,
    state: { terminated: { exitCode: 0, reason: "Completed", message: text } },
    lastState: { terminated: { exitCode: 1, message: text } },
  }));
}

describe("reportedEnd()", () => {
  const waiting = { waiting: { reason: "PodInitializing" } };
  const exited = (exitCode: number) => ({
    terminated: { exitCode, reason: "Completed", finishedAt: "2026-01-01T00:00:00Z" },
  });

  /** The states of a failed pod's containers in the API: why they wait, or how they ended. */
  function shown(
    init: readonly (Partial<ContainerReport> & { readonly restartPolicy?: string })[],
    main: readonly Partial<ContainerReport>[],
    status: PodStatus = {},
    restartPolicy = "Never",
  ): (string | undefined)[] {
    const reports = (prefix: string, list: readonly Partial<ContainerReport>[]) =>
      list.map((state, index) => ({
        name: `${prefix}${index}`,
        ready: false,
        started: false,
        restartCount: 0,
        image: "i",
        ...state,
      }));
    const [initContainers, containers] = [reports("i", init), reports("m", main)];
    const report: PodReport = {
      podUid: "p",
      generation: 1,
      phase: "Failed",
      reason: "DeadlineExceeded",
      startTime: "2026-01-01T00:00:00Z",
      initContainers,
      containers,
      ephemeralContainers: [],
      events: [],
      timingsMs: {},
    };
    const spec = { initContainers, containers, restartPolicy };
    const pod = { metadata: { name: "web", uid: "p" }, spec, status } as unknown as Pod; // what is read
    const end = reportedEnd(report, cellStateWith({ agent: { report } }), pod);
    const lists = [...(end?.initContainerStatuses ?? []), ...(end?.containerStatuses ?? [])];
    return lists.map(({ state }) => state?.waiting?.reason ?? state?.terminated?.reason);
  }

  it("ends containers that never ran, as a kubelet does, so that the pod does not look like one that starts", () => {
    const unknown = "ContainerStatusUnknown";
    const initializing = "PodInitializing";
    assert.deepEqual(shown([], [waiting, exited(0)]), [unknown, "Completed"]);
    assert.deepEqual(shown([exited(0)], [waiting]), ["Completed", unknown]);
    assert.deepEqual(shown([exited(1), waiting], [waiting]), [
      "Completed",
      initializing,
      initializing,
    ]);
    assert.deepEqual(shown([waiting, waiting], [waiting]), [unknown, initializing, initializing]);
  });

  it("shows how a sidecar ended, and ends what never ran after it had started", () => {
    const sidecar = { ...exited(143), restartPolicy: "Always" };
    assert.deepEqual(shown([sidecar], [exited(0)]), ["Completed", "Completed"]);
    for (const end of [exited(143), exited(0)])
      assert.deepEqual(shown([{ ...sidecar, ...end }], [waiting]), [
        "Completed",
        "PodInitializing",
      ]);
    const known = { name: "i0", started: true, state: { running: {} } } as ContainerStatus; // what is read
    const status = { initContainerStatuses: [known] };
    const unknown = "ContainerStatusUnknown";
    assert.deepEqual(shown([sidecar], [waiting], status), ["Completed", unknown]);
    // The report that follows, when its containers are ended in the API.
    const over = {
      initContainerStatuses: [{ ...known, started: false, state: exited(143) }],
      containerStatuses: [{ name: "m0", state: exited(137) }],
    } as unknown as PodStatus; // what is read
    for (const policy of ["Never", "OnFailure", "Always"])
      assert.equal(shown([sidecar], [waiting], over, policy).includes("PodInitializing"), false);
  });

  it("shows how a sidecar ended that was to be restarted, if nothing else of the pod would be", () => {
    const crashed = {
      waiting: { reason: "CrashLoopBackOff" },
      lastTerminated: exited(7).terminated,
      restartPolicy: "Always",
    };
    assert.deepEqual(shown([crashed], [exited(0)]), ["Completed", "Completed"]);
    // A kubelet does not tell how such a container ended.
    const unknown = "ContainerStatusUnknown";
    assert.deepEqual(shown([crashed], [exited(0)], {}, "OnFailure"), [unknown, "Completed"]);
  });
});

describe("storedEnd()", () => {
  it("keeps an ordinary end except the messages of earlier runs", () => {
    const [container] = statuses(1, 10);
    assert.ok(container);
    const stored = storedEnd({
      phase: "Failed",
      reason: "Evicted",
      containerStatuses: [container],
    });
    assert.deepEqual(stored, {
      phase: "Failed",
      reason: "Evicted",
      containerStatuses: [{ ...container, lastState: { terminated: { exitCode: 1 } } }],
    });
  });

  it("hostile cell: is never larger than a Cell can hold", () => {
    for (const [count, length] of [
      [10, 4096],
      [5000, 10],
      [2000, 1024],
    ] as const) {
      const stored = storedEnd({ phase: "Succeeded", containerStatuses: statuses(count, length) });
      assert.ok(JSON.stringify(stored).length <= 200 * 1024);
      assert.equal(stored.phase, "Succeeded");
    }
  });

  it("shares the room for messages among the containers", () => {
    const stored = storedEnd({ phase: "Failed", containerStatuses: statuses(12, 4096) });
    const messages = stored.containerStatuses?.map(
      ({ state }) => state?.terminated?.message?.length,
    );
    assert.deepEqual(new Set(messages), new Set([1024]));
  });
});
