import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ApiClient } from "@kip/k8s-client";
import { K8sError } from "@kip/k8s-client";
import type { Cell } from "../state/cell.ts";
import { freeFinishedPods } from "./finished-pods.ts";

describe("freeFinishedPods()", () => {
  it("frees the cells of finished pods without a worker, and no others", async () => {
    const pods: Readonly<Record<string, unknown>> = {
      done: { metadata: { uid: "done" }, status: { phase: "Succeeded" } },
      busy: { metadata: { uid: "busy" }, status: { phase: "Failed" } },
      runs: { metadata: { uid: "runs" }, status: { phase: "Running" } },
      other: { metadata: { uid: "a later pod" }, status: { phase: "Failed" } },
      leaving: {
        metadata: { uid: "leaving", deletionTimestamp: "now" },
        status: { phase: "Failed" },
      },
    };
    const client = {
      get: async (path: string) => {
        const pod = pods[path.split("/").at(-1) ?? ""];
        if (pod === undefined) throw new K8sError("K8S_NOT_FOUND", "no such pod");
        return pod;
      },
    } as unknown as ApiClient; // the calls that are made
    const cells = [...Object.keys(pods), "gone"].map(
      (name) =>
        ({ spec: { podRef: { namespace: "default", name, uid: name } } }) as unknown as Cell,
    );
    const freed: string[] = [];
    await freeFinishedPods({
      client,
      cells,
      provider: { hasWorker: (uid) => uid === "busy", freeCell: ({ uid }) => void freed.push(uid) },
    });
    assert.deepEqual(freed, ["done"]);
  });

  it("reads no pod that has got a worker meanwhile", async () => {
    const workers = new Set<string>();
    const read: string[] = [];
    const client = {
      get: async (path: string) => {
        read.push(path.split("/").at(-1) ?? "");
        for (const uid of ["a", "b", "c"]) workers.add(uid);
        return { metadata: { uid: "a" }, status: { phase: "Running" } };
      },
    } as unknown as ApiClient; // the calls that are made
    const cells = ["a", "b", "c"].map(
      (uid) => ({ spec: { podRef: { namespace: "default", name: uid, uid } } }) as unknown as Cell,
    );
    const provider = { hasWorker: (uid: string) => workers.has(uid), freeCell: () => {} };
    await freeFinishedPods({ client, cells, provider });
    assert.deepEqual(read, ["a"]);
  });
});
