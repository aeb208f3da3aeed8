import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { microTime, paths } from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";
import { ManualClock } from "@kip/testing";
import { turnNamespace } from "../replicas/run-in-turns.ts";
import type { Cell } from "../state/cell.ts";
import { CellStore } from "../store/cell-store.ts";
import { ApiServer } from "../testing/faults/api-server.ts";
import { settled } from "../testing/settled.ts";
import { drainNode } from "./drain-node.ts";

const nodeName = "kip";

let clock: ManualClock;
let api: ApiServer;
let store: CellStore;

beforeEach(async () => {
  clock = new ManualClock();
  api = new ApiServer(clock);
  store = new CellStore(api.client);
  await api.client.create(paths.nodes(), { metadata: { name: nodeName } });
});

/** A running pod of the node, and its Cell. */
async function runPod(name: string, owner: string): Promise<Cell> {
  const ownerReferences = [
    { kind: owner, name, uid: "o", apiVersion: "apps/v1", controller: true },
  ];
  const pod = await api.client.create<Pod>(paths.pods("default"), {
    metadata: { name, ownerReferences },
    spec: { nodeName },
    status: { phase: "Running" },
  });
  return await store.create({
    podRef: { namespace: "default", name, uid: pod.metadata.uid },
    nodeName,
    controllerID: "us",
    instanceType: "sim.1",
    launchType: "on-demand",
    image: "cell",
    rootDiskBytes: 0,
    privateIPOnly: true,
    pricePerHour: 0,
    attempt: 0,
    restartCounts: {},
  });
}

/** Like kip does when a pod has ended. */
async function writePhase(name: string, phase: string): Promise<void> {
  const path = paths.pods("default", name, "status");
  await api.client.patch(path, { status: { phase } }, "merge");
}

/** Drains the node while its kip renews the Lease. */
function drain() {
  const progress: string[] = [];
  const options = { client: api.client, nodeName, clock, signal: new AbortController().signal };
  const state = { isDone: false, progress };
  const work = drainNode({ ...options, onProgress: (line) => void progress.push(line) });
  const done = work.then(() => (state.isDone = true));
  return Object.assign(state, { done });
}

/** Lets time pass while kip runs. */
async function pass(): Promise<void> {
  for (let renewals = 0; renewals < 6; renewals++) {
    const metadata = { name: nodeName };
    const spec = { leaseDurationSeconds: 40, renewTime: microTime(clock.now()) };
    const path = paths.leases(turnNamespace, nodeName);
    await api.client.patch(path, { metadata, spec }, "apply");
    await clock.advance(10_000);
  }
}

describe("drainNode()", () => {
  it("waits for the Cell of a pod that has ended and is not removed yet", async () => {
    const cell = await runPod("web", "ReplicaSet");
    await pass();
    const draining = drain();
    await pass();
    assert.ok(api.pods()[0]?.metadata.deletionTimestamp, "it is evicted");
    await writePhase("web", "Failed");
    await pass();
    assert.equal(draining.isDone, false, "its instance runs");
    await api.client.delete(paths.pods("default", "web"), { graceSeconds: 0 });
    await pass();
    assert.equal(draining.isDone, false, "its Cell is there");
    assert.match(draining.progress.at(-1) ?? "", /^Waiting for 1 Cell to end/);
    await store.remove(cell);
    await settled(draining.done, clock);
  });

  it("waits for the Cell of a pod that had ended before", async () => {
    const cell = await runPod("job", "Job");
    await writePhase("job", "Succeeded");
    await pass();
    const draining = drain();
    await pass();
    assert.equal(draining.isDone, false);
    await store.remove(cell);
    await settled(draining.done, clock);
  });

  it("leaves pods of DaemonSets, and their Cells", async () => {
    await runPod("agent", "DaemonSet");
    await pass();
    await settled(drain().done, clock);
    assert.equal(api.pods()[0]?.metadata.deletionTimestamp, undefined);
  });
});
