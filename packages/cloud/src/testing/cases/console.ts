import assert from "node:assert/strict";
import type { CloudDriver } from "../../cloud-driver.ts";
import type { Bench } from "../bench/bench.ts";
import { clause, clauseWith, type ConformanceTopic } from "../bench/conformance-case.ts";

/** Console output during boot, and reasons why an instance does not boot. */
export const console: ConformanceTopic = {
  name: "console",
  cases: [
    clause("shows the end of the console", async (bench) => {
      const { cloud } = bench;
      const { id } = await bench.running();
      await bootText(bench, cloud, id);
      const { whole, tail } = await bench.until(async () => {
        const whole = await cloud.consoleOutput(id, 4096);
        const tail = await cloud.consoleOutput(id, 5);
        return (await cloud.consoleOutput(id, 4096)) === whole ? { whole, tail } : undefined;
      });
      assert.equal(Buffer.byteLength(tail), 5);
      assert.ok(whole.endsWith(tail), tail);
      assert.equal(await cloud.consoleOutput(id, 0), "");
    }),

    clauseWith(
      ["faults"],
      "shows the console of an instance that ended by itself",
      async (bench) => {
        const { id } = await bench.running();
        await bootText(bench, bench.cloud, id);
        await bench.faults.kill(id);
        await bench.cloud.waitForTerminated(id);
        await bootText(bench, await bench.open(), id);
      },
    ),
  ],
};

/** Waits until the console has the image's text, because consoles of clouds lag. */
async function bootText(bench: Bench, cloud: CloudDriver, id: string): Promise<void> {
  await bench.until(async () => {
    const text = await cloud.consoleOutput(id, 4096);
    return bench.options.consoleText.test(text) ? text : undefined;
  });
}
