import assert from "node:assert/strict";
import type { CloudDriver, Instance, InterruptionNotice } from "../../cloud-driver.ts";
import { clauseWith, type ConformanceTopic } from "../bench/conformance-case.ts";

const hourMs = 3_600_000;

/** The cloud gives notice and then takes an instance back. */
export const interruption: ConformanceTopic = {
  name: "interruption",
  cases: [
    clauseWith(
      ["interruption", "faults"],
      "tells every process once that an instance will be taken back",
      async (bench) => {
        const { cloud, faults } = bench;
        const { id } = await bench.running({ launchType: "spot" });
        const other = await bench.open();
        const heard: string[] = [];
        const notices = [cloud, other].map((each) => {
          each.onInterruption(({ instance }) => heard.push(instance.id))();
          return noticeOf(each, id, () => heard.push("told"));
        });
        await faults.interrupt(id, hourMs);
        for (const { instance, endsAt } of await Promise.all(notices)) {
          assert.equal(instance.launchType, "spot");
          assert.ok(Date.parse(endsAt) > Date.parse(instance.launchedAt), endsAt);
        }
        assert.deepEqual(heard, ["told", "told"]);
        assert.equal((await cloud.describe(id))?.state, "running");
      },
    ),

    clauseWith(
      ["interruption", "faults"],
      "tells a process that comes later, as after a restart",
      async (bench) => {
        const { id } = await bench.running();
        const first = noticeOf(bench.cloud, id);
        await bench.faults.interrupt(id, hourMs);
        const { endsAt } = await first;
        assert.equal((await noticeOf(await bench.open(), id)).endsAt, endsAt);
        assert.equal((await noticeOf(bench.cloud, id)).endsAt, endsAt);
      },
    ),

    clauseWith(
      ["interruption", "faults"],
      "ends the instance by itself when its time has come",
      async (bench) => {
        const { cloud, faults } = bench;
        const { id } = await bench.running();
        const other = await bench.open();
        await other.describe(id);
        const notices = [cloud, other].map(async (each) => {
          const { promise, resolve } = Promise.withResolvers<Instance>();
          const order: string[] = [];
          each.onInterruption(({ instance }) => instance.id === id && order.push("notice"));
          each.onTerminated((instance) => {
            if (instance.id !== id) return;
            order.push("end");
            resolve(instance);
          });
          return { state: (await promise).state, order };
        });
        await faults.interrupt(id, 200);
        const ends = await Promise.all(notices);
        for (const { state } of ends) assert.equal(state, "terminated");
        await cloud.waitForTerminated(id);
        assert.equal(await other.describe(id), undefined);
        // Check each process separately, because one may look after the other has seen the end.
        for (const { order } of ends) assert.deepEqual(order, ["notice", "end"]);
      },
    ),

    clauseWith(
      ["interruption", "faults"],
      "forgets the notice of an instance that was ended before",
      async (bench) => {
        const { cloud, faults } = bench;
        const instance = await bench.running();
        const notice = noticeOf(cloud, instance.id);
        await faults.interrupt(instance.id, hourMs);
        await notice;
        const heard: string[] = [];
        cloud.onTerminated(({ id }) => heard.push(id));
        await bench.end(instance);
        const later = await bench.open();
        later.onInterruption(({ instance: { id } }) => heard.push(id));
        await later.list();
        const again = await later.launch(bench.request({ token: instance.token }));
        await later.waitForRunning(again.id);
        assert.deepEqual(heard, []);
      },
    ),
  ],
};

/** The first notice that a process gets for an instance. */
async function noticeOf(
  cloud: CloudDriver,
  id: string,
  each: () => void = () => {},
): Promise<InterruptionNotice> {
  return await new Promise((resolve) => {
    cloud.onInterruption((notice) => {
      if (notice.instance.id !== id) return;
      each();
      resolve(notice);
    });
  });
}
