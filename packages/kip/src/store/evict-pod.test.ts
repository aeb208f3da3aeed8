import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { K8sError, type ApiClient } from "@kip/k8s-client";
import { evictPod } from "./evict-pod.ts";

const ref = { namespace: "team", name: "web", uid: "u" };
const notFound = new K8sError("K8S_NOT_FOUND", 'pods "web" not found');

/** An API server that does not find the pod for an eviction, but returns this one for a read. */
function without(found: string | undefined): ApiClient {
  return {
    create: async () => {
      throw notFound;
    },
    get: async () => {
      if (found === undefined) throw notFound;
      return { metadata: { ...ref, uid: found } };
    },
  } as unknown as ApiClient; // the parts that are used
}

describe("evictPod()", () => {
  it("takes a pod that is not found for evicted only if it is gone", async () => {
    await evictPod(without(undefined), ref);
    await evictPod(without("another"), ref);
    await assert.rejects(evictPod(without("u"), ref), notFound);
  });

  it("asks another client whether the pod is gone", async () => {
    await assert.rejects(evictPod(without(undefined), ref, { reader: without("u") }), notFound);
  });
});
