import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { setImmediate } from "node:timers/promises";
import { describe, it } from "node:test";
import { temporaryFolder } from "@kip/testing";
import { lockCluster } from "./cluster-lock.ts";

describe("lockCluster()", () => {
  it("has one holder at a time, also when its file is removed meanwhile", async () => {
    using folder = temporaryFolder();
    let holders = 0;
    let turns = 0;
    const work = async (): Promise<void> => {
      for (let turn = 0; turn < 4; turn++) {
        await using _lock = await lockCluster("/state", { runtimeDir: folder.path });
        assert.equal(++holders, 1);
        await setImmediate();
        holders--;
        turns++;
      }
    };
    await Promise.all([work(), work(), work(), work()]);
    assert.equal(turns, 16);
    assert.deepEqual(readdirSync(folder.path), []);
  });

  it("does not make the users of other folders wait", async () => {
    using folder = temporaryFolder();
    await using _one = await lockCluster("/one", { runtimeDir: folder.path });
    await using _two = await lockCluster("/two", { runtimeDir: folder.path });
  });
});
