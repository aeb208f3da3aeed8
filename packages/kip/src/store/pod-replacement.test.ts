import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate } from "node:timers/promises";
import { silentLogger } from "@kip/base";
import { paths } from "@kip/k8s-client";
import type { OwnerReference, Pod } from "@kip/k8s-types";
import { ManualClock } from "@kip/testing";
import { ApiServer } from "../testing/faults/api-server.ts";
import { PodReplacement } from "./pod-replacement.ts";

const owner = { kind: "ReplicaSet", name: "web", uid: "rs" } as OwnerReference;
const pods = 20;

/** Lets a watch deliver its events. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 200; turn++) await setImmediate();
}

async function start() {
  const api = new ApiServer(new ManualClock());
  const { client } = api;
  const calls = { watches: 0, reads: 0 };
  const replicaSet = {
    metadata: { name: "web", uid: "rs" },
    spec: { replicas: pods, selector: { matchLabels: { app: "web" } } },
  };
  const counted = {
    ...client,
    get: async () => {
      calls.reads++;
      await setImmediate();
      return replicaSet;
    },
    stream: async (...args: Parameters<typeof client.stream>) => {
      calls.watches++;
      return await client.stream(...args);
    },
  };
  const createPod = async (name: string): Promise<Pod> =>
    await client.create<Pod>(paths.pods("default"), {
      metadata: { name, labels: { app: "web" }, ownerReferences: [owner] },
      status: { conditions: [{ type: "Ready", status: "True" }] },
    });
  const replacement = new PodReplacement({
    client: counted as typeof client,
    clock: new ManualClock(),
    logger: silentLogger,
  });
  const old = [];
  for (let index = 0; index < pods; index++) old.push(await createPod(`old-${index}`));
  return { client, calls, createPod, replacement, old };
}

describe("PodReplacement.ready()", () => {
  it("watches and counts the pods of one owner once for all that wait, and lets them go one by one", async () => {
    const { client, calls, createPod, replacement, old } = await start();
    const { signal } = new AbortController();
    let ready = 0;
    for (const { metadata } of old)
      void replacement.ready(metadata, owner, signal).then(() => ready++);
    await settle();
    assert.deepEqual([ready, calls.watches], [0, 1]);
    assert.ok(calls.reads < pods + 10, `${calls.reads} reads`);
    // All stay ready beside the first replacement, so each may go.
    await createPod("new");
    await settle();
    assert.equal(ready, pods);
    // After all waiters are done, the next one starts a new watch.
    const { metadata } = await createPod("another");
    await client.delete(paths.pods("default", "old-0"), { graceSeconds: 0 });
    await client.delete(paths.pods("default", "old-1"), { graceSeconds: 0 });
    const abort = new AbortController();
    const waiting = replacement.ready(metadata, owner, abort.signal);
    await settle();
    assert.equal(calls.watches, 2);
    abort.abort(new Error("enough"));
    await assert.rejects(waiting, /enough/);
  });
});
