import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Pod } from "@kip/k8s-types";
import { podWith } from "@kip/k8s-types/testing";
import type { PodController } from "../pods/pod-controller.ts";
import { MemoryProvider } from "../testing/memory-provider.ts";
import { kubeletHandlers } from "./kubelet-handlers.ts";
import { nodeIntervals } from "./node-intervals.ts";

function pod(uid: string, phase: string): Pod {
  return podWith({ metadata: { uid, name: uid, namespace: "ns" }, status: { phase } });
}

describe("kubeletHandlers()", () => {
  it("does not list a pod as running if only its log is left", async () => {
    const known = new Map(
      [pod("a", "Running"), pod("b", "Succeeded"), pod("c", "Failed"), pod("d", "Pending")].map(
        (each) => [each.metadata.uid, each],
      ),
    );
    const provider = Object.assign(new MemoryProvider(), {
      list: async () =>
        [...known.keys(), "deleted in the API"].map((uid) => ({ uid, namespace: "", name: "" })),
    });
    const handlers = kubeletHandlers({
      nodeName: "n",
      provider,
      pods: { byUid: (uid: string) => known.get(uid) } as unknown as PodController, // all it uses here
      intervals: nodeIntervals({}),
      problem: () => undefined,
    });
    const uids = (await handlers.runningPods()).map(({ metadata }) => metadata?.uid);
    assert.deepEqual(uids, ["a", "d"]);
  });
});
