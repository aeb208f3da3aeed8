import assert from "node:assert/strict";
import { setImmediate } from "node:timers/promises";
import type { Instance } from "../../cloud-driver.ts";
import { nowhere } from "../bench/bench.ts";
import { clause, clauseWith, type ConformanceTopic } from "../bench/conformance-case.ts";

/** Waiting uses events and costs no calls. */
export const waiting: ConformanceTopic = {
  name: "waiting",
  cases: [
    clause("tells all who wait that an instance runs", async (bench) => {
      const { id } = await bench.launch();
      const other = await bench.open();
      const waiters = [bench.cloud, other, bench.cloud, other].map((each) =>
        each.waitForRunning(id),
      );
      for (const instance of await Promise.all(waiters)) {
        assert.equal(instance.state, "running");
        assert.ok(instance.managementIp !== undefined && instance.podIp !== undefined);
      }
    }),

    clause("tells all who wait that an instance is gone, in another process too", async (bench) => {
      const { cloud } = bench;
      const { id } = await bench.running();
      const other = await bench.open();
      const waiters = [cloud, other, other].map(async (each) => {
        await each.waitForTerminated(id);
        assert.equal(await each.describe(id), undefined);
      });
      await cloud.terminate(id);
      await Promise.all(waiters);
    }),

    clause(
      "hears of an end as fast as the end itself is, in another process too",
      async (bench) => {
        const { cloud } = bench;
        const [other, looker] = [await bench.open(), await bench.open()];
        const lags: number[] = [];
        const ends: number[] = [];
        for (let round = 0; round < 3; round++) {
          const { id } = await bench.running();
          const heard = [cloud, other].map(async (each) => {
            await each.waitForTerminated(id);
            return performance.now();
          });
          const asked = performance.now();
          await cloud.terminate(id);
          // The reference: this handle polls without a pause, which no driver may do.
          const isGone = async () => ((await looker.describe(id)) ? undefined : performance.now());
          const gone = await bench.until(isGone, 1);
          lags.push(Math.max(...(await Promise.all(heard))) - gone);
          ends.push(gone - asked);
        }
        assert.ok(median(lags) <= median(ends) + 50, `${median(lags)} ms late`);
      },
    ),

    clauseWith(["callCount", "faults"], "asks the cloud nothing while it waits", async (bench) => {
      const { cloud, options, faults } = bench;
      const { id } = await bench.running();
      const waiters = Array.from({ length: 5 }, () => cloud.waitForTerminated(id));
      await cloud.describe(id);
      await faults.slowLaunch({ ms: 300 });
      const before = options.callCount?.() ?? 0;
      await bench.running(); // takes a while, during which others wait
      const asked = (options.callCount?.() ?? 0) - before;
      await cloud.terminate(id);
      await Promise.all(waiters);
      assert.ok(asked <= 5, `${asked} calls`);
    }),

    clause("lets a waiter go when its signal aborts", async (bench) => {
      const { id } = await bench.launch();
      const reason = new Error("enough");
      const aborter = new AbortController();
      const waiting = assert.rejects(
        bench.cloud.waitForTerminated(id, aborter.signal),
        (error) => error === reason,
      );
      waiting.catch(() => {}); // awaited below, but may fail before that
      await setImmediate();
      aborter.abort(reason);
      await waiting;
      const late = AbortSignal.abort(reason);
      await assert.rejects(bench.cloud.waitForRunning(id, late), (error) => error === reason);
      assert.ok(await bench.cloud.describe(id));
    }),

    clause("waits for nothing that is gone", async (bench) => {
      const instance = await bench.launch();
      await bench.end(instance);
      for (const id of [instance.id, nowhere]) {
        await bench.cloud.waitForTerminated(id);
        await bench.refuses("CLOUD_NOT_FOUND", bench.cloud.waitForRunning(id));
      }
    }),

    clause("says nothing of instances that were ended on purpose", async (bench) => {
      const heard: string[] = [];
      const other = await bench.open();
      for (const each of [bench.cloud, other]) each.onTerminated(({ id }) => heard.push(id));
      const launched = await bench.launch();
      await other.describe(launched.id);
      const gone = other.waitForTerminated(launched.id);
      await bench.end(launched);
      await gone;
      assert.deepEqual(heard, []);
    }),

    clauseWith(["faults"], "reports an unexpected end to every process", async (bench) => {
      const { cloud, faults } = bench;
      const { id, token } = await bench.running();
      const other = await bench.open();
      await other.describe(id);
      const heard: Instance[] = [];
      const unwanted: Instance[] = [];
      const notified = [cloud, other].map(async (each) => {
        each.onTerminated((instance) => unwanted.push(instance))();
        const { promise, resolve } = Promise.withResolvers<void>();
        each.onTerminated((instance) => {
          if (instance.id !== id) return;
          heard.push(instance);
          resolve();
        });
        await promise;
      });
      await faults.kill(id);
      await Promise.all([...notified, cloud.waitForTerminated(id), other.waitForTerminated(id)]);
      assert.equal(await cloud.describe(id), undefined);
      assert.deepEqual(await bench.listed(token), []);
      await cloud.terminate(id);
      assert.equal(heard.length, 2);
      for (const { state, stateReason = "" } of heard) {
        assert.equal(state, "terminated");
        assert.notEqual(stateReason, "");
      }
      assert.deepEqual(unwanted, []);
    }),
  ],
};

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}
