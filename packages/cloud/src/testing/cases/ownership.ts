import assert from "node:assert/strict";
import { clause, clauseWith, type ConformanceTopic } from "../bench/conformance-case.ts";

/** Objects of another installation are invisible. */
export const ownership: ConformanceTopic = {
  name: "ownership",
  cases: [
    clause("hides instances of other owners and leaves them alone", async (bench) => {
      const { id, token } = await bench.running();
      const stranger = await bench.openAsStranger();
      assert.deepEqual(await bench.listed(token, stranger), []);
      assert.equal(await stranger.describe(id), undefined);
      await bench.refuses("CLOUD_NOT_FOUND", stranger.waitForRunning(id));
      await bench.refuses("CLOUD_NOT_FOUND", stranger.consoleOutput(id, 10));
      await stranger.waitForTerminated(id);
      await stranger.terminate(id);
      assert.equal((await bench.cloud.describe(id))?.state, "running");
    }),

    clause("gives two owners an instance each for the same token", async (bench) => {
      const own = await bench.launch();
      const stranger = await bench.openAsStranger();
      const theirs = await stranger.launch(bench.request({ token: own.token }));
      assert.notEqual(theirs.id, own.id);
      assert.notEqual(theirs.owner, own.owner);
      await stranger.terminate(theirs.id);
      await stranger.waitForTerminated(theirs.id);
      assert.ok(await bench.cloud.describe(own.id));
    }),

    clauseWith(["faults"], "tells an owner nothing of another's instances", async (bench) => {
      const { id } = await bench.running();
      const stranger = await bench.openAsStranger();
      const heard: string[] = [];
      stranger.onTerminated((instance) => heard.push(instance.id));
      stranger.onInterruption(({ instance }) => heard.push(instance.id));
      await stranger.list();
      await bench.faults.interrupt(id, 3_600_000);
      await bench.faults.kill(id);
      await bench.cloud.waitForTerminated(id);
      await stranger.list();
      assert.deepEqual(heard, []);
    }),

    clauseWith(
      ["volumes"],
      "hides volumes of other owners and leaves them alone",
      async (bench) => {
        const volume = await bench.volume();
        const instance = await bench.running();
        const stranger = await bench.openAsStranger();
        assert.equal(await bench.volumeNow(volume, stranger), undefined);
        await bench.refuses("CLOUD_NOT_FOUND", stranger.attachVolume(volume.id, instance.id));
        await stranger.deleteVolume(volume.id);
        assert.deepEqual(await bench.volumeNow(volume), volume);
        await bench.cloud.attachVolume(volume.id, instance.id);
        await stranger.detachVolume(volume.id, instance.id);
        assert.equal((await bench.volumeNow(volume))?.attachedTo, instance.id);
      },
    ),
  ],
};
