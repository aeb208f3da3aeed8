import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Pod, PodCondition, PodStatus } from "@kip/k8s-types";
import { podWith } from "@kip/k8s-types/testing";
import { statusPatch } from "./status-patch.ts";

function podOf(status: PodStatus): Pod {
  return podWith({ metadata: { uid: "u1", resourceVersion: "7" }, status });
}

const time = "2025-01-01T00:00:00Z";

describe("statusPatch()", () => {
  it("is undefined when the API has an equivalent status already", () => {
    const status: PodStatus = {
      phase: "Running",
      conditions: [{ type: "Ready", status: "True", lastTransitionTime: time }],
    };
    const wanted: PodStatus = {
      ...status,
      reason: "",
      initContainerStatuses: [],
      conditions: [{ type: "Ready", status: "True", lastTransitionTime: "2026-01-01T00:00:00Z" }],
    };
    assert.equal(statusPatch(podOf(status), wanted), undefined);
  });

  it("is undefined when a condition only has null where the API has nothing", () => {
    const condition = { type: "Ready", status: "True" } as const;
    const status = {
      phase: "Running",
      conditions: [{ ...condition, reason: null, message: null }],
    } as unknown as PodStatus; // as in a provider's JSON
    assert.equal(
      statusPatch(podOf({ phase: "Running", conditions: [condition] }), status),
      undefined,
    );
  });

  it("carries the UID and the version that it changes, and only what differs (P10, P11)", () => {
    const pod = podOf({ phase: "Pending", qosClass: "Burstable", reason: "ProviderFailed" });
    assert.deepEqual(statusPatch(pod, { phase: "Running", qosClass: "Burstable" }), {
      metadata: { uid: "u1", resourceVersion: "7" },
      status: { phase: "Running", reason: null },
    });
  });

  it("keeps conditions of other writers, and sends only its own changed ones", () => {
    const pod = podOf({
      conditions: [
        { type: "Theirs", status: "True" },
        { type: "Ready", status: "False" },
        { type: "Initialized", status: "True" },
      ],
    });
    const conditions = [
      { type: "Ready", status: "True" },
      { type: "Initialized", status: "True" },
    ];
    assert.deepEqual(statusPatch(pod, { conditions })?.["status"], {
      conditions: [{ type: "Ready", status: "True" }],
    });
  });

  it("clears the reason and message of a condition that no longer has them", () => {
    const known = { type: "Ready", status: "False", reason: "ContainersNotReady", message: "m" };
    const ready = { type: "Ready", status: "True" };
    const patch = statusPatch(podOf({ conditions: [known] }), { conditions: [ready] });
    assert.deepEqual(patch?.status, { conditions: [{ ...ready, reason: null, message: null }] });
    const half = { ...known, message: "" };
    assert.deepEqual(statusPatch(podOf({ conditions: [known] }), { conditions: [half] })?.status, {
      conditions: [{ ...half, message: null }],
    });
  });

  it("has a condition once, and not again when the API has it", () => {
    const [first, last] = ["False", "True"].map((status) => ({ type: "Ready", status }));
    assert.ok(first && last);
    const wanted = { conditions: [first, last] };
    assert.deepEqual(statusPatch(podOf({}), wanted)?.status, { conditions: [last] });
    assert.equal(statusPatch(podOf({ conditions: [last] }), wanted), undefined);
  });

  it("sets transition times itself, as a provider's pod may be older than the API's conditions", () => {
    const before = "2025-01-01T00:10:00Z";
    const between = "2025-01-01T00:20:00Z";
    const now = "2025-01-01T00:30:00Z";
    const pod = podOf({
      conditions: [
        { type: "Ready", status: "False", lastTransitionTime: between },
        { type: "ContainersReady", status: "False", reason: "A", lastTransitionTime: between },
        { type: "Initialized", status: "False", lastTransitionTime: before },
      ],
    });
    const conditions = [
      { type: "Ready", status: "True", lastTransitionTime: before },
      { type: "ContainersReady", status: "False", reason: "B", lastTransitionTime: now },
      { type: "Initialized", status: "True", lastTransitionTime: between },
    ];
    assert.deepEqual(statusPatch(pod, { conditions }, { now })?.["status"], {
      conditions: [
        { ...conditions[0], lastTransitionTime: now },
        { ...conditions[1], lastTransitionTime: between },
        conditions[2],
      ],
    });
  });

  it("is undefined for values that the API server writes in another form", () => {
    const terminated = { exitCode: 0, finishedAt: time };
    const main = { name: "main", image: "x", imageID: "", ready: false, restartCount: 0 };
    const known = podOf({
      podIP: "10.0.0.1",
      podIPs: [{ ip: "10.0.0.1" }],
      containerStatuses: [{ ...main, state: { terminated } }],
    });
    const finishedAt = time.replace("Z", ".123Z");
    const wanted: PodStatus = {
      podIP: "10.0.0.1",
      containerStatuses: [{ ...main, state: { terminated: { ...terminated, finishedAt } } }],
    };
    assert.equal(statusPatch(known, wanted), undefined);
  });

  it("never removes the phase of a pod", () => {
    const pod = podOf({ phase: "Running", qosClass: "Burstable", startTime: time });
    assert.equal(statusPatch(pod, {}), undefined);
  });

  it("replaces the list of addresses instead of adding to it", () => {
    const pod = podOf({ podIP: "10.0.0.1", podIPs: [{ ip: "10.0.0.1" }] });
    const patch = statusPatch(pod, { podIP: "10.0.0.2", podIPs: [{ ip: "10.0.0.2" }] });
    assert.deepEqual(patch?.["status"], {
      podIP: "10.0.0.2",
      podIPs: [{ ip: "10.0.0.2" }, { $patch: "replace" }],
    });
  });

  it("reports the observed generation, never an older one", () => {
    const pod = { ...podOf({ phase: "Running" }) };
    assert.deepEqual(
      statusPatch(pod, { phase: "Running" }, { observedGeneration: 3 })?.["status"],
      {
        observedGeneration: 3,
      },
    );
    const observed = podOf({ phase: "Running", observedGeneration: 3 });
    assert.equal(statusPatch(observed, { phase: "Running" }, { observedGeneration: 2 }), undefined);
  });
});

describe("statusPatch(), of conditions", () => {
  const ready = { type: "Ready", status: "True" as const, lastTransitionTime: time };
  const patchOf = (known: PodStatus, wanted: readonly PodCondition[], generation: number) =>
    statusPatch(podOf(known), { conditions: wanted }, { observedGeneration: generation })?.status?.[
      "conditions"
    ];

  it("reports the generation that each is about: its own, or the one of the status", () => {
    const pending = { type: "PodResizePending", status: "True" as const, observedGeneration: 2 };
    assert.deepEqual(patchOf({}, [ready, pending], 3), [
      { observedGeneration: 3, ...ready },
      pending,
    ]);
    const known = [{ ...ready, observedGeneration: 3 }, pending];
    const seen = { observedGeneration: 3, conditions: known };
    assert.equal(patchOf(seen, [ready, pending], 3), undefined);
    assert.deepEqual(patchOf(seen, [ready, pending], 4), [{ ...ready, observedGeneration: 4 }]);
    assert.equal(patchOf(seen, [ready, pending], 2), undefined);
  });

  it("removes those of a resize that is over, and no others", () => {
    const resize = { type: "PodResizeInProgress", status: "True" as const };
    const other = { type: "example.com/Other", status: "True" as const };
    const seen = { ...ready, observedGeneration: 3 };
    const known = { observedGeneration: 3, conditions: [seen, resize, other] };
    assert.deepEqual(patchOf(known, [ready], 3), [
      { type: "PodResizeInProgress", $patch: "delete" },
    ]);
    // A status without conditions does not change them.
    assert.equal(statusPatch(podOf(known), {}), undefined);
  });
});
