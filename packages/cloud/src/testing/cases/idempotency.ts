import assert from "node:assert/strict";
import type { CloudDriver, Instance, LaunchRequest } from "../../cloud-driver.ts";
import { cloudErrorCode } from "../../errors.ts";
import type { Bench } from "../bench/bench.ts";
import { clause, clauseWith, type ConformanceTopic } from "../bench/conformance-case.ts";

/** One token means one instance, with failures, repetitions and concurrent calls. */
export const idempotency: ConformanceTopic = {
  name: "idempotency",
  cases: [
    clause("gives one instance for one token, asked at once and again", async (bench) => {
      const { cloud } = bench;
      const asked = bench.request();
      const other = await bench.open();
      const answers = await Promise.all([
        cloud.launch(asked),
        other.launch(asked),
        cloud.launch(asked),
      ]);
      const ids = new Set([...answers, await cloud.launch(asked)].map(({ id }) => id));
      assert.equal(ids.size, 1);
      assert.equal((await bench.listed(asked.token, other)).length, 1);
    }),

    clause("gives the instance of a token whatever else is asked for", async (bench) => {
      const first = await bench.running();
      const { token } = first;
      const again = await bench.launch({ token, name: "other", tags: { other: "yes" } });
      assert.equal(again.id, first.id);
      assert.equal(again.name, first.name);
      assert.deepEqual(await bench.listed(token), [first]);
    }),

    clause("finds running instances again after a restart", async (bench) => {
      const launched = await bench.running();
      const restarted = await bench.open();
      assert.deepEqual(await bench.listed(launched.token, restarted), [launched]);
      assert.equal(
        (await restarted.launch(bench.request({ token: launched.token }))).id,
        launched.id,
      );
    }),

    clause("finds what a process left behind that died while it launched", async (bench) => {
      const asked = bench.request();
      const dying = await bench.options.open();
      const launching = dying.launch(asked).catch(() => undefined);
      await dying[Symbol.asyncDispose]();
      const restarted = await bench.open();
      const launched = await restarted.launch(asked);
      await launching;
      const running = await restarted.waitForRunning(launched.id);
      assert.deepEqual(await bench.listed(asked.token), [running]);
    }),

    clauseWith(["faults"], "finds an instance whose launch was not answered", async (bench) => {
      const { cloud, faults } = bench;
      const asked = bench.request();
      await faults.fail({ operation: "launch", code: "CLOUD_UNAVAILABLE", moment: "after" });
      await bench.refuses("CLOUD_UNAVAILABLE", cloud.launch(asked));
      const other = await bench.open();
      const [found, ...more] = await bench.listed(asked.token, other);
      assert.deepEqual(more, []);
      assert.equal((await other.launch(asked)).id, found?.id);
    }),

    clauseWith(["faults"], "starts nothing when a launch fails", async (bench) => {
      const { cloud, faults } = bench;
      const asked = bench.request();
      await faults.fail({ operation: "launch", code: "CLOUD_UNAVAILABLE" });
      await bench.refuses("CLOUD_UNAVAILABLE", cloud.launch(asked));
      assert.deepEqual(await bench.listed(asked.token), []);
      assert.equal((await cloud.launch(asked)).token, asked.token);
    }),

    clause("starts nothing for a caller who has gone", async (bench) => {
      const asked = bench.request();
      const reason = new Error("enough");
      await assert.rejects(bench.cloud.launch(asked, AbortSignal.abort(reason)), reason);
      assert.deepEqual(await bench.listed(asked.token), []);
    }),

    clause("keeps one instance per token through random schedules", async (bench) => {
      const { count, steps } = bench.options.schedules ?? { count: 2, steps: 12 };
      for (let schedule = 0; schedule < count; schedule++) await runSchedule(bench, steps);
    }),
  ],
};

/** Several processes launch, end and list two tokens at once. Some answers are lost. */
async function runSchedule(bench: Bench, steps: number): Promise<void> {
  const { cloud, random } = bench;
  const handles = [cloud, await bench.open(), await bench.open()];
  const requests = [bench.request(), bench.request()];
  const pick = <T>(items: readonly T[]): T =>
    items[Math.floor(random() * items.length)] ?? assert.fail("nothing to pick");
  let pending: Promise<void>[] = [];
  for (let step = 0; step < steps; step++) {
    if (random() < 0.15 && bench.options.faults && !bench.options.without?.faults)
      await bench.faults.fail({
        operation: "launch",
        code: "CLOUD_UNAVAILABLE",
        moment: "after",
      });
    pending.push(act(pick(handles), pick(requests), random()));
    if (random() < 0.3) {
      await Promise.all(pending);
      pending = [];
    }
  }
  await Promise.all(pending);
  await bench.options.faults?.clear();
  await Promise.all(requests.map((request) => settles(bench, request)));
}

/** One step of one process. */
async function act(cloud: CloudDriver, request: LaunchRequest, choice: number): Promise<void> {
  const own = (await cloud.list()).filter(({ token }) => token === request.token);
  assertAlone(own);
  try {
    if (choice < 0.55) await cloud.launch(request);
    else for (const { id } of own) await cloud.terminate(id);
  } catch (error) {
    assert.equal(cloudErrorCode(error), "CLOUD_UNAVAILABLE", String(error)); // the fault above
  }
}

/** In the end, the token has one instance, which runs and ends like any other. */
async function settles(bench: Bench, request: LaunchRequest): Promise<void> {
  const { cloud } = bench;
  assertAlone(await bench.listed(request.token));
  const running = await cloud.waitForRunning((await cloud.launch(request)).id);
  assert.deepEqual(await bench.listed(request.token), [running]);
  await bench.end(running);
  assert.deepEqual(await bench.listed(request.token), []);
}

function assertAlone(instances: readonly Instance[]): void {
  const living = instances.filter(({ state }) => state !== "stopping");
  assert.ok(living.length <= 1, `${living.length} instances of one token`);
}
