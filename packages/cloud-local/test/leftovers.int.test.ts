import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdtemp, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { describe, it } from "node:test";
import { createLocalCloud } from "../src/index.ts";
import { hostSnapshot } from "./support/host-snapshot.ts";
import { machineRequest } from "./support/machine-request.ts";
import { prepareTestCloud } from "./support/test-cloud.ts";

const name = "kiptleft";

describe("prepareTestCloud()", { timeout: 120_000 }, () => {
  it("removes folder, network and machines of a run that was killed", async () => {
    const first = await prepareTestCloud(name, 11);
    const range = first.options.range ?? "";
    const before = await hostSnapshot(name, range);
    const left = await mkdtemp(path.join(os.tmpdir(), `${name}-`));
    await writeFile(path.join(left, "test-process"), `${process.pid} 0`);
    {
      await using killed = await createLocalCloud({ ...first.options, stateDir: `${left}/state` });
      await killed.launch(machineRequest());
    }
    assert.notDeepEqual(await hostSnapshot(name, range), before);
    const second = await prepareTestCloud(name, 11);
    assert.ok(!existsSync(left));
    assert.ok(existsSync(first.folder), "a run that goes on keeps its folder");
    assert.deepEqual(await hostSnapshot(name, range), before);
    await second.remove();
    await first.remove();
  });
});
