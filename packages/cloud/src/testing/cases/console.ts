import assert from "node:assert/strict";
import type { CloudDriver } from "../../cloud-driver.ts";
import type { Bench } from "../bench.ts";
import { clause, clauseWith, type ConformanceTopic } from "../conformance-case.ts";

/** What an instance says while it boots, and why it does not. */
export const console: ConformanceTopic = {
  name: "console",
  cases: [
    clause("shows the end of the console", async (bench) => {
      const { id } = await bench.running();
      const text = await bootText(bench, bench.cloud, id);
      const tail = await bench.cloud.consoleOutput(id, 5);
      assert.ok(tail !== "" && Buffer.byteLength(tail) <= 5, tail);
      assert.equal(await bench.cloud.consoleOutput(id, 0), "");
      assert.ok(text.length > 5);
    }),

    clauseWith(
      ["adversity"],
      "shows the console of an instance that ended by itself",
      async (bench) => {
        const { id } = await bench.running();
        await bootText(bench, bench.cloud, id);
        await bench.adversity.kill(id);
        await bench.cloud.waitForTerminated(id);
        await bootText(bench, await bench.open(), id);
      },
    ),
  ],
};

async function bootText({ options }: Bench, cloud: CloudDriver, id: string): Promise<string> {
  for (;;) {
    const text = await cloud.consoleOutput(id, 4096);
    if (options.consoleText.test(text)) return text;
    // Consoles of clouds lag; no cloud tells when there is more to read.
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
