import assert from "node:assert/strict";
import path from "node:path";
import { describe, it } from "node:test";
import { runCommand } from "@kip/base";

const program = path.join(import.meta.dirname, "../bin/virtual-kubelet");

/** The heap limit of the command's process in MiB, and whether Node's TypeScript parser is loaded. */
async function start(nodeOptions: string): Promise<{ heapMiB: number; hasParser: boolean }> {
  const probe = `import v8 from "node:v8";
    process.on("exit", () => console.log(JSON.stringify({
      heapMiB: v8.getHeapStatistics().heap_size_limit / 2 ** 20,
      hasParser: process.moduleLoadList.some((each) => each.includes("deps/amaro")),
    })));`;
  const options = `${nodeOptions} --import data:text/javascript,${encodeURIComponent(probe)}`;
  const { stdout } = await runCommand(program, ["version"], {
    env: { ...process.env, NODE_OPTIONS: options },
  });
  return JSON.parse(stdout.split("\n")[1] ?? "") as { heapMiB: number; hasParser: boolean };
}

describe("bin/virtual-kubelet", () => {
  it("limits the heap, so that V8 collects garbage early, unless the environment does", async () => {
    const { heapMiB } = await start("");
    assert.ok(heapMiB >= 512 && heapMiB < 640, `${heapMiB} MiB`);
    const own = await start("--max-old-space-size=1000");
    assert.ok(own.heapMiB >= 1000, `${own.heapMiB} MiB`);
  });

  it("does without the TypeScript parser from the second start on", async () => {
    await start("");
    assert.equal((await start("")).hasParser, false);
  });
});
