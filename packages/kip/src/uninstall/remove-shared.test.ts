import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { beforeEach, describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import { createLeaderLease, createLeaseHolder, paths } from "@kip/k8s-client";
import { ManualClock } from "@kip/testing";
import { turnLease, turnNamespace } from "../replicas/run-in-turns.ts";
import { ApiServer } from "../testing/faults/api-server.ts";
import { settled } from "../testing/settled.ts";
import { removeShared } from "./remove-shared.ts";

const { signal } = new AbortController();

let clock: ManualClock;
let api: ApiServer;

beforeEach(() => {
  clock = new ManualClock();
  api = new ApiServer(clock);
});

/** The turn of a node's kip. */
function turnOf(nodeName: string) {
  return createLeaderLease({
    client: api.client,
    namespace: turnNamespace,
    name: turnLease(nodeName),
    identity: `host_${randomUUID()}`,
    durationMs: 15_000,
    clock,
    logger: silentLogger,
  });
}

async function remove(): Promise<string | undefined> {
  const { client } = api;
  const options = { client, nodeName: "last", namespace: "kip-system", clock, signal };
  return await settled(removeShared({ ...options, onProgress: () => {} }), clock);
}

describe("removeShared()", () => {
  it("finds the kip of another node, which renews its Lease", async () => {
    const term = await turnOf("other").acquire(signal);
    assert.equal(await remove(), "the kip that holds Lease kube-node-lease/other.kip");
    await term.release(true);
    assert.equal(await remove(), undefined);
  });

  it("finds the replica that takes over from a kip that is gone", async () => {
    const term = await turnOf("other").acquire(signal);
    await term.release(false);
    const next = turnOf("other").acquire(signal);
    assert.equal(await remove(), "the kip that holds Lease kube-node-lease/other.kip");
    await (await settled(next, clock)).release(true);
  });

  it("takes no Lease for a kip that one has left", async () => {
    for (const [nodeName, handsOver] of [
      ["ended", true],
      ["killed", false],
    ] as const) {
      const term = await turnOf(nodeName).acquire(signal);
      await term.release(handsOver);
    }
    assert.equal(await remove(), undefined);
  });

  it("takes the Lease of a node for none of a kip, whatever its name", async () => {
    const holder = createLeaseHolder({
      client: api.client,
      namespace: turnNamespace,
      name: "worker.kip",
      holder: "worker.kip",
      durationSeconds: 40,
      clock,
    });
    await holder.renew();
    const removal = remove();
    await holder.renew();
    assert.equal(await removal, undefined);
  });

  it("finds another node of kip", async () => {
    await api.client.create(paths.nodes(), { metadata: { name: "other" } });
    assert.equal(await remove(), 'node "other"');
  });
});
