import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { container, desiredPod } from "../../test/desired-pod.ts";
import { noAllocation } from "./allocation.ts";
import { containersOf, newRecord } from "./container-record.ts";
import { podReport } from "./report.ts";

describe("podReport()", () => {
  // What kubectl makes "Init:0/1" of; of another reason it makes "Init:ContainerCreating".
  it("lets all containers of a pod that has init containers wait for its initialisation", () => {
    const reasons = (initContainers: string[]): (string | undefined)[] => {
      const pod = desiredPod({ initContainers: initContainers.map((name) => container(name)) });
      const containers = containersOf(pod).map(({ desired, kind }) => newRecord(desired, kind));
      const report = podReport({
        pod,
        containers,
        events: [],
        startTimeMs: 0,
        isEnding: false,
        timingsMs: {},
        isReleased: false,
        allocation: noAllocation,
      });
      return [...report.initContainers, ...report.containers].map(({ waiting }) => waiting?.reason);
    };
    assert.deepEqual(reasons(["init"]), ["PodInitializing", "PodInitializing"]);
    assert.deepEqual(reasons([]), ["ContainerCreating"]);
  });
});
