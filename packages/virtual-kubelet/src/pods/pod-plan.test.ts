import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Pod } from "@kip/k8s-types";
import { podWith } from "@kip/k8s-types/testing";
import { planPod, stepInput } from "./pod-plan.ts";
import { initialPodState, type PodState } from "./pod-state.ts";

type Facts = Partial<PodState["api"] & PodState["content"] & PodState["provider"]>;

/** A pod that its provider has not seen yet, except for these facts. */
function stateOf(pod: Pod, facts: Facts): PodState {
  const fresh = initialPodState(pod, { canFinish: true });
  return {
    api: { ...fresh.api, ...facts },
    content: { ...fresh.content, ...facts },
    provider: { ...fresh.provider, ...facts },
  };
}

const pending = podWith({ status: { phase: "Pending" } });
const finished = podWith({ status: { phase: "Succeeded" } });
const deleting = podWith({ metadata: { deletionTimestamp: "2025-01-01T00:00:00Z" } });

describe("planPod()", () => {
  const cases: readonly (readonly [string, Facts, Pod, string | undefined])[] = [
    ["applies what is new", {}, pending, "apply"],
    ["has nothing to do for what was applied", { handled: 1 }, pending, undefined],
    ["applies what changed since", { handled: 1, revision: 2 }, pending, "apply"],
    ["does not apply a pod that was rejected or has ended", { isOver: true }, pending, undefined],
    [
      "leaves a pod alone that its provider reported as ended (L6, L7)",
      { isEnded: true },
      finished,
      undefined,
    ],
    ["has a pod stopped that is terminal in the API alone", { handled: 1 }, finished, "finish"],
    ["has it removed by a provider that cannot stop it", { canFinish: false }, finished, "remove"],
    ["stops a terminal pod once", { isStopped: true }, finished, undefined],
    ["does not stop what was removed", { isRemoved: true }, finished, undefined],
    ["has a pod removed before its object goes", {}, deleting, "remove"],
    ["removes a finished pod too", {}, { ...finished, metadata: deleting.metadata }, "remove"],
    ["deletes the object of what was removed", { isRemoved: true }, deleting, "finalize"],
    [
      "deletes the object of what the provider removed by itself (P9)",
      { hasDeleted: true, isRemoved: true },
      pending,
      "finalize",
    ],
    ["waits for finalizers of others", { isRemoved: true, isFinalized: true }, deleting, undefined],
    ["forgets a pod whose object is gone", { isGone: true }, pending, "forget"],
    [
      "ends with what is gone on both sides",
      { isGone: true, isRemoved: true },
      deleting,
      undefined,
    ],
  ];
  for (const [name, facts, pod, expected] of cases) {
    it(name, () => {
      assert.equal(planPod(stateOf(pod, facts)).steps[0]?.kind, expected);
    });
  }
});

describe("stepInput()", () => {
  it("changes with the content of a pod, and with the urgency of its removal", () => {
    assert.notEqual(
      stepInput({ kind: "apply", revision: 1 }),
      stepInput({ kind: "apply", revision: 2 }),
    );
    const remove = { kind: "remove", graceSeconds: 30, isDeletion: true } as const;
    assert.equal(stepInput(remove), stepInput({ ...remove }));
    assert.notEqual(stepInput(remove), stepInput({ ...remove, graceSeconds: 5 }));
    assert.equal(stepInput({ kind: "finalize" }), stepInput({ kind: "finalize" }));
  });
});
