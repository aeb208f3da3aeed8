import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Pod } from "@kip/k8s-types";
import { podWith } from "@kip/k8s-types/testing";
import { planStep, type ActorState } from "./actor-plan.ts";

const fresh: ActorState = {
  isDirty: true,
  isGone: false,
  isDeletedByProvider: false,
  isEnded: false,
  isStopped: false,
  isRemoved: false,
  isFinalized: false,
};
const pending = podWith({ status: { phase: "Pending" } });
const finished = podWith({ status: { phase: "Succeeded" } });
const deleting = podWith({ metadata: { deletionTimestamp: "2025-01-01T00:00:00Z" } });

describe("planStep()", () => {
  const cases: readonly (readonly [string, Partial<ActorState>, Pod, string | undefined])[] = [
    ["applies what is new", {}, pending, "apply"],
    ["has nothing to do for what was applied", { isDirty: false }, pending, undefined],
    [
      "leaves a pod alone that its provider reported as ended (L6, L7)",
      { isEnded: true },
      finished,
      undefined,
    ],
    ["has a pod stopped that is terminal in the API alone", { isDirty: false }, finished, "finish"],
    ["stops a terminal pod once", { isStopped: true }, finished, undefined],
    ["does not stop what was removed", { isRemoved: true }, finished, undefined],
    ["has a pod removed before its object goes", {}, deleting, "remove"],
    ["removes a finished pod too", {}, { ...finished, metadata: deleting.metadata }, "remove"],
    ["deletes the object of what was removed", { isRemoved: true }, deleting, "finalize"],
    [
      "deletes the object of what the provider removed by itself (P9)",
      { isDeletedByProvider: true, isRemoved: true },
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
  for (const [name, state, pod, expected] of cases) {
    it(name, () => {
      assert.equal(planStep({ ...fresh, ...state }, pod), expected);
    });
  }
});
