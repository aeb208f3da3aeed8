import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { podWith } from "@kip/k8s-types/testing";
import { resolvedWith } from "../testing/resolved-pod.ts";
import { initialPodState, reducePod, type PodChange, type PodState } from "./pod-state.ts";

const at = (version: number, image: string): ReturnType<typeof podWith> =>
  podWith({
    metadata: { resourceVersion: String(version) },
    spec: { containers: [{ name: "main", image }] },
  });
const first = at(1, "x:1");

function after(...changes: readonly PodChange[]): PodState {
  return changes.reduce(reducePod, initialPodState(first, { canFinish: true }));
}

describe("reducePod()", () => {
  it("raises the revision with each relevant change that the watch shows", () => {
    const seen = after(
      { kind: "seen", pod: at(2, "x:1"), source: "watch" },
      { kind: "seen", pod: at(3, "x:2"), source: "watch" },
      { kind: "contentChanged" },
    );
    assert.deepEqual([seen.content.revision, seen.api.pod.metadata.resourceVersion], [3, "3"]);
  });

  it("keeps the newest version, whichever way it came, and misses no change", () => {
    const newer = at(3, "x:2");
    const seen = after({ kind: "seen", pod: newer, source: "write" });
    assert.deepEqual([seen.api.pod, seen.content.revision], [newer, 1]);
    const late = reducePod(seen, { kind: "seen", pod: at(2, "x:2"), source: "watch" });
    assert.deepEqual([late.api.pod, late.content.revision], [newer, 2]);
    assert.equal(reducePod(late, { kind: "seen", pod: at(3, "x:2"), source: "write" }), late);
  });

  it("counts content that changed during a call as not handled", () => {
    const resolved = resolvedWith(first);
    const { content } = after(
      { kind: "contentChanged" },
      { kind: "applied", revision: 1, resolved },
    );
    assert.deepEqual([content.revision, content.handled, content.applied], [2, 1, resolved]);
  });

  it("counts a pod as removed that its provider deleted, but not a removal as its deletion", () => {
    const report = { kind: "reported", isEnd: true, annotations: ["a"], isDeleted: true } as const;
    const deleted = after(report).provider;
    assert.deepEqual([deleted.hasDeleted, deleted.isRemoved, deleted.isEnded], [true, true, true]);
    assert.deepEqual([...deleted.ownAnnotations], ["a"]);
    assert.equal(after({ kind: "removed" }, report).provider.hasDeleted, false);
  });
});

describe("initialPodState()", () => {
  it("takes a terminal pod as ended if its provider would lose the logs otherwise", () => {
    const finished = podWith({ status: { phase: "Succeeded" } });
    assert.equal(initialPodState(finished, { canFinish: false }).provider.isEnded, true);
    assert.equal(initialPodState(finished, { canFinish: true }).provider.isEnded, false);
  });
});
