import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { silentLogger, type Clock } from "@kip/base";
import type { Lease } from "@kip/k8s-types";
import type { ApiClient } from "../client/api-client.ts";
import { createLeaderLease } from "./leader-lease.ts";

const never = new Promise<never>(() => {});

describe("createLeaderLease()", () => {
  it("waits the whole duration from when it saw the lease, however long the answer took", async () => {
    let nowMs = 0;
    const sleeps: number[] = [];
    const twice = Promise.withResolvers<void>();
    const clock: Clock = {
      now: () => nowMs,
      monotonic: () => nowMs,
      // The first sleep ends at once, as after an event of the watch.
      sleep: async (ms) => {
        if (sleeps.push(ms) === 1) return;
        twice.resolve();
        await never;
      },
    };
    const held: Lease = {
      metadata: { name: "lease", resourceVersion: "7" },
      spec: { holderIdentity: "other", leaseDurationSeconds: 15 },
    };
    // The holder renewed it just before the server finally answered.
    const get = async (): Promise<Lease> => {
      if (nowMs === 0) nowMs = 14_000;
      return held;
    };
    const client = { get, list: () => never, stream: () => never } as Partial<ApiClient>;
    const stop = new AbortController();
    const lease = createLeaderLease({
      client: client as ApiClient, // what it calls here
      namespace: "ns",
      name: "lease",
      identity: "me",
      durationMs: 15_000,
      clock,
      logger: silentLogger,
    });
    void lease.acquire(stop.signal).catch(() => {});
    await twice.promise;
    assert.deepEqual(sleeps, [15_000, 15_000]);
    stop.abort();
  });
});
