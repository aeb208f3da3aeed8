import assert from "node:assert/strict";
import type { LaunchRequest } from "../../cloud-driver.ts";
import { CloudError, type CapacityScope } from "../../errors.ts";
import type { Bench } from "../bench/bench.ts";
import { clauseWith, type ConformanceTopic } from "../bench/conformance-case.ts";

/** Refusals for lack of capacity: which capacity is missing, and which is still there. */
export const capacity: ConformanceTopic = {
  name: "capacity",
  cases: [
    clauseWith(["faults"], "says which type has no capacity, and starts another", async (bench) => {
      const scope = { instanceType: bench.type };
      await bench.faults.noCapacity(scope);
      assert.deepEqual(await scopeRefused(bench), scope);
      const other = await bench.launch({ instanceType: bench.otherType });
      assert.equal(other.instanceType, bench.otherType);
      await bench.faults.restoreCapacity(scope);
      await bench.launch();
    }),

    clauseWith(["faults"], "says that the zone has no capacity", async (bench) => {
      const scope = { zone: bench.cloud.zone };
      await bench.faults.noCapacity({ zone: "elsewhere" });
      await bench.faults.noCapacity(scope);
      assert.deepEqual(await scopeRefused(bench), scope);
      assert.deepEqual(await scopeRefused(bench, { launchType: "spot" }), scope);
      await bench.faults.clear();
      await bench.faults.noCapacity({});
      assert.deepEqual(await scopeRefused(bench), scope);
    }),

    clauseWith(
      ["faults"],
      "says which launch type has no capacity, and starts another",
      async (bench) => {
        const scope = { launchType: "spot" };
        await bench.faults.noCapacity(scope);
        assert.deepEqual(await scopeRefused(bench, { launchType: "spot" }), scope);
        assert.equal((await bench.launch()).launchType, "on-demand");
        await bench.faults.clear();
        assert.equal((await bench.launch({ launchType: "spot" })).launchType, "spot");
      },
    ),

    clauseWith(
      ["faults"],
      "gives the instance of a token for which there is no longer capacity",
      async (bench) => {
        const { cloud } = bench;
        const { id, token } = await bench.running();
        await bench.faults.noCapacity({});
        assert.equal((await bench.launch({ token })).id, id);
        assert.equal((await (await bench.open()).launch(bench.request({ token }))).id, id);
        await bench.end(await cloud.waitForRunning(id));
      },
    ),

    clauseWith(["faults"], "starts others while one launch is slow", async (bench) => {
      const { cloud, faults } = bench;
      const began = performance.now();
      await bench.running();
      const usualMs = performance.now() - began;
      await faults.slowLaunch({ instanceType: bench.otherType, ms: 200 + 4 * usualMs });
      const order: string[] = [];
      const note = async (instanceType: string): Promise<void> => {
        const { id } = await bench.launch({ instanceType });
        await cloud.waitForRunning(id);
        order.push(instanceType);
      };
      await Promise.all([note(bench.otherType), note(bench.type)]);
      assert.deepEqual(order, [bench.type, bench.otherType]);
    }),

    clauseWith(
      ["faults"],
      "starts nothing for a caller who leaves a slow launch",
      async (bench) => {
        const { cloud, faults } = bench;
        await faults.slowLaunch({ ms: 3_600_000 });
        const aborter = new AbortController();
        const request = bench.request();
        const reason = new Error("enough");
        const launching = cloud.launch(request, aborter.signal);
        await cloud.list();
        aborter.abort(reason);
        await assert.rejects(launching, reason);
        assert.deepEqual(await bench.listed(request.token), []);
      },
    ),
  ],
};

/** The scope of a refused launch. Asserts that no instance was started. */
async function scopeRefused(
  bench: Bench,
  changes: Partial<LaunchRequest> = {},
): Promise<CapacityScope> {
  const request = bench.request(changes);
  let scope: CapacityScope | undefined;
  for (const cloud of [bench.cloud, await bench.open()]) {
    await assert.rejects(cloud.launch(request), (error) => {
      assert.ok(error instanceof CloudError, String(error));
      assert.equal(error.code, "CLOUD_NO_CAPACITY");
      scope = error.scope;
      return true;
    });
  }
  assert.deepEqual(await bench.listed(request.token), []);
  return scope ?? {};
}
