import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { microTime, paths, wireTime } from "@kip/k8s-client";
import { ManualClock } from "@kip/testing";
import { turnNamespace } from "../replicas/run-in-turns.ts";
import { ApiServer } from "../testing/faults/api-server.ts";
import { settled } from "../testing/settled.ts";
import { isNodeRun } from "./node-heartbeat.ts";

const { signal } = new AbortController();
const node = { metadata: { name: "kip" } };

/** The cluster's clock. */
let clock: ManualClock;
let api: ApiServer;

beforeEach(() => {
  clock = new ManualClock();
  api = new ApiServer(clock);
});

const renewLease = async (): Promise<void> => {
  const spec = { leaseDurationSeconds: 40, renewTime: microTime(clock.now()) };
  await api.client.patch(paths.leases(turnNamespace, "kip"), { ...node, spec }, "apply");
};

const beat = async (): Promise<void> => {
  const conditions = [
    { type: "Ready", status: "True", lastHeartbeatTime: wireTime(clock.now()) },
    { type: "DiskPressure", status: "False", lastHeartbeatTime: wireTime(0) },
  ];
  await api.client.patch(paths.nodes("kip"), { ...node, status: { conditions } }, "apply");
};

/** Whether the node runs, for a clock that is some minutes ahead, and the longest announced wait in seconds. */
async function look(minutesAhead = 0) {
  let longest: number | undefined;
  const ahead = Object.assign(Object.create(clock) as ManualClock, {
    now: () => clock.now() + minutesAhead * 60_000,
    monotonic: () => clock.monotonic(),
    sleep: async (ms: number, ending?: AbortSignal) => await clock.sleep(ms, ending),
  });
  const began = clock.monotonic();
  const options = { client: api.client, nodeName: "kip", clock: ahead, signal };
  const isRun = await isNodeRun(options, (seconds) => (longest = seconds));
  return { isRun, longest, took: (clock.monotonic() - began) / 1000 };
}

/** Runs a function every ten seconds during the check. */
async function lookWhile(repeated: () => Promise<void>, minutesAhead?: number) {
  const looking = look(minutesAhead);
  const done = new AbortController();
  const repeating = (async () => {
    while (!done.signal.aborted) {
      await clock.sleep(10_000, done.signal).catch(() => {});
      if (!done.signal.aborted) await repeated();
    }
  })();
  const seen = await settled(looking, clock);
  done.abort();
  await repeating;
  return seen;
}

describe("isNodeRun()", () => {
  for (const minutesAhead of [0, 6, -6, 600])
    it(`sees that the Lease is renewed, by a clock ${minutesAhead} min ahead`, async () => {
      await renewLease();
      const { isRun, longest, took } = await lookWhile(renewLease, minutesAhead);
      assert.deepEqual([isRun, longest], [true, 40]);
      assert.ok(took <= 11, `after ${took} s`);
    });

  it("sees heartbeats of a Node that has no Lease", async () => {
    await beat();
    assert.equal((await lookWhile(beat)).isRun, true);
  });

  it("sees a Lease that is made meanwhile", async () => {
    await beat();
    assert.equal((await lookWhile(renewLease)).isRun, true);
  });

  it("sees nothing where nothing is renewed for as long as the Lease lasts", async () => {
    await renewLease();
    await beat();
    const label = async (): Promise<void> => {
      const labels = { at: String(clock.monotonic()) };
      await api.client.patch(paths.nodes("kip"), { metadata: { labels } }, "merge");
      await api.client.patch(paths.leases(turnNamespace, "kip"), { metadata: { labels } }, "merge");
    };
    const { isRun, took } = await lookWhile(label);
    assert.equal(isRun, false);
    assert.ok(took >= 40 && took < 42, `after ${took} s`);
  });

  it("takes a Lease that is deleted for no renewal", async () => {
    await renewLease();
    const path = paths.leases(turnNamespace, "kip");
    const deleteOnce = async (): Promise<void> => {
      await api.client.delete(path).catch(() => {}); // only the first call finds it
    };
    assert.equal((await lookWhile(deleteOnce)).isRun, false);
  });

  it("does not wait where there is neither Lease nor Node", async () => {
    assert.deepEqual(await look(), { isRun: false, longest: undefined, took: 0 });
  });
});
