import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ContainerState, Pod } from "@kip/k8s-types";
import { noLogReason } from "./container-logs.ts";

describe("noLogReason(), in the kubelet's words", () => {
  const reason = (state: ContainerState | undefined, isPrevious = false): string => {
    const status = { name: "c", image: "i", imageID: "", ready: false, restartCount: 0 };
    const pod: Pod = {
      metadata: { name: "p", namespace: "ns", uid: "u", resourceVersion: "1" },
      spec: { containers: [{ name: "c" }] },
      status: { containerStatuses: state ? [{ ...status, state }] : [] },
    };
    return noLogReason(pod, "c", isPrevious);
  };
  const cases = [
    ["container without a status", undefined, 'container "c" in pod "p" is not available'],
    [
      "container that ended without having run",
      { terminated: { exitCode: 137, reason: "ContainerStatusUnknown" } },
      'container "c" in pod "p" is terminated',
    ],
    [
      "image that cannot be pulled",
      { waiting: { reason: "ErrImagePull" } },
      'container "c" in pod "p" is waiting to start: image can\'t be pulled',
    ],
    [
      "any other reason to wait",
      { waiting: { reason: "ContainerCreating" } },
      'container "c" in pod "p" is waiting to start: ContainerCreating',
    ],
  ] as const;
  for (const [name, state, text] of cases)
    it(`${name}: ${text}`, () => assert.equal(reason(state), text));

  it("says only that there is no previous run, in any state", () =>
    assert.equal(
      reason({ waiting: { reason: "ErrImagePull" } }, true),
      'previous terminated container "c" in pod "p" not found',
    ));
});
