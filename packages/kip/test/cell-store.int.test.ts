import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { silentLogger, systemClock } from "@kip/base";
import { sharedControlPlane, type SharedControlPlane } from "@kip/control-plane/testing";
import {
  createApiClient,
  loadKubeConfig,
  paths,
  wrapRequests,
  type ApiClient,
} from "@kip/k8s-client";
import type { ContainerStatus } from "@kip/k8s-types";
import { CellStore } from "../src/store/cell-store.ts";
import { cellFinalizer, type Cell, type CellSpec, type PodEnd } from "../src/state/cell.ts";
import { storedEnd } from "../src/status/pod-end.ts";

let plane: SharedControlPlane;
let client: ApiClient;
let store: CellStore;

before(
  async () => {
    plane = await sharedControlPlane();
    const config = await loadKubeConfig({ path: plane.kubeconfigPath });
    client = createApiClient(config, {
      userAgent: "test/1",
      logger: silentLogger,
      clock: systemClock,
    });
    store = new CellStore(client);
    await store.ensureCrd();
  },
  { timeout: 900_000 },
);

after(async () => {
  client?.close();
  await plane?.[Symbol.asyncDispose]();
});

function specOf(uid: string): CellSpec {
  return {
    podRef: { namespace: "default", name: "web", uid },
    nodeName: "kip",
    controllerID: "c",
    instanceType: "t",
    launchType: "on-demand",
    image: "i",
    rootDiskBytes: 1,
    privateIPOnly: true,
    pricePerHour: 0,
    attempt: 0,
    restartCounts: { main: 1 },
    ended: {
      done: { exitCode: 0, reason: "Completed", finishedAt: "2026-01-01T00:00:00Z" },
      debug: { exitCode: 137 },
    },
  };
}

function endOf(count: number, message: string): PodEnd {
  const time = "2026-01-01T00:00:00Z";
  const unknown = { exitCode: 137, startedAt: null, finishedAt: null };
  const containerStatuses = Array.from({ length: count }, (_each, index) => ({
    name: `c${index}`,
    state: { terminated: { exitCode: 0, message, startedAt: time, finishedAt: time } },
    // The API's form of an unknown time.
    lastState: { terminated: unknown },
    ready: false,
    started: false,
    restartCount: 1,
    image: "i",
    imageID: "",
    containerID: "crun://1",
  })) as unknown as ContainerStatus[];
  return { phase: "Succeeded", containerStatuses, initContainerStatuses: containerStatuses };
}

describe("CellStore with an API server", { timeout: 120_000 }, () => {
  it("keeps the whole end of a pod, and what goes with a pod to its next cell", async () => {
    const spec = specOf(crypto.randomUUID());
    const cell = await store.create(spec);
    const podEnd = storedEnd(endOf(2, "all of it"));
    const lastTransitionTime = "2026-01-01T00:00:00Z";
    const ready = { type: "Ready", status: "True", reason: "AgentAnswers", message: "m" } as const;
    const conditions = [{ ...ready, lastTransitionTime }];
    await store.writeStatus(cell, { phase: "Claimed", conditions, podEnd });
    // A later status without it does not remove it.
    await store.writeStatus(cell, { phase: "Terminating" });
    const read = await client.get<Cell>(paths.cells(cell.metadata.name));
    assert.deepEqual(read.spec, spec);
    // The API server omits null values.
    const known = JSON.stringify(podEnd).replaceAll(/,"(?:startedAt|finishedAt)":null/g, "");
    const kept = { podEnd: JSON.parse(known) as unknown, conditions };
    assert.deepEqual(read.status, { ...read.status, phase: "Terminating", ...kept });
    await store.remove(cell);
  });

  it("keeps what a machine may do and its groups, also when a pod claims it", async () => {
    const profile = {
      instanceProfile: "web",
      securityGroups: ["sg-1", "sg-2"],
      routes: ["10.1.0.0/16"],
    };
    const { podRef, attempt, restartCounts, ended: _, ...machine } = specOf(crypto.randomUUID());
    const waiting = { ...machine, ...profile, standby: true as const };
    const cell = await store.createStandby(waiting, `cell-standby-${crypto.randomUUID()}`);
    assert.ok(cell);
    const path = paths.cells(cell.metadata.name);
    for (const spec of [
      { instanceProfile: "other" },
      { securityGroups: ["sg-1"] },
      { routes: ["10.2.0.0/16"] },
    ])
      await assert.rejects(
        client.patch(path, { spec: { ...spec, podRef, attempt, restartCounts } }, "merge"),
        { code: "K8S_INVALID" },
      );
    const claimed = await store.claim(cell, { podRef, attempt, restartCounts });
    assert.deepEqual(claimed?.spec, { ...waiting, podRef, attempt, restartCounts });
    await store.remove(claimed);
  });

  it("takes the largest end that is stored", async () => {
    const cell = await store.create(specOf(crypto.randomUUID()));
    const podEnd = storedEnd(endOf(280, "x".repeat(4096)));
    assert.ok(podEnd.containerStatuses, "the containers are in it");
    await store.writeStatus(cell, { phase: "Claimed", podEnd });
    await store.remove(cell);
  });

  it("leaves a Cell to those whose finalizers are on it, and deletes it when none is", async () => {
    const cell = await store.create(specOf(crypto.randomUUID()));
    const path = paths.cells(cell.metadata.name);
    const both = [cellFinalizer, "example.com/backup"];
    await client.patch(path, { metadata: { finalizers: both } }, "merge");
    await store.remove(cell);
    const kept = await client.get<Cell>(path);
    assert.deepEqual(kept.metadata.finalizers, ["example.com/backup"]);
    await client.patch(path, { metadata: { finalizers: [] } }, "merge");
    await assert.rejects(client.get(path), { code: "K8S_NOT_FOUND" });
    await store.remove(cell);
  });

  it("keeps a Cell whose deletion was asked for until its instance is gone", async () => {
    const cell = await store.create(specOf(crypto.randomUUID()));
    const path = paths.cells(cell.metadata.name);
    await store.markDeleted(cell);
    const kept = await client.get<Cell>(path);
    assert.ok(kept.metadata.deletionTimestamp);
    await store.writeStatus(cell, { phase: "Terminating" });
    const writes: string[] = [];
    const counted = new CellStore(
      wrapRequests(client, async (verb, send) => {
        writes.push(verb);
        return await send();
      }),
    );
    await counted.remove(cell, { isMarked: true });
    assert.deepEqual(writes, ["GET", "PATCH"]);
    await assert.rejects(client.get(path), { code: "K8S_NOT_FOUND" });
    await store.markDeleted(cell);
    await store.remove(cell, { isMarked: true });
  });

  it("deletes the version of a Cell that it knows, and after another client's write the newest", async () => {
    const cell = await store.create(specOf(crypto.randomUUID()));
    await new CellStore(client).writeStatus(cell, { phase: "Ready" });
    const { name, uid, resourceVersion } = cell.metadata;
    const path = paths.cells(name);
    await assert.rejects(client.delete(path, { uid, resourceVersion }), { code: "K8S_CONFLICT" });
    assert.equal((await client.get<Cell>(path)).metadata.deletionTimestamp, undefined);
    await store.remove(cell);
    await assert.rejects(client.get(path), { code: "K8S_NOT_FOUND" });
  });

  it("reads whether a pod is open, ended or gone", async () => {
    const containers = [{ name: "main", image: "i" }];
    const { metadata } = await client.create<Cell>(paths.pods("default"), {
      metadata: { generateName: "cell-store-" },
      spec: { nodeName: "none", containers },
    });
    const { name, uid } = metadata;
    const ref = { namespace: "default", name, uid };
    assert.equal(await store.readPod(ref), "open");
    const path = paths.pods("default", name);
    await client.patch(`${path}/status`, { status: { phase: "Failed" } }, "merge");
    assert.equal(await store.readPod(ref), "ended");
    assert.equal(await store.readPod({ ...ref, uid: "another" }), "gone");
    await client.delete(path, { graceSeconds: 0 });
    assert.equal(await store.readPod(ref), "gone");
  });
});
