import assert from "node:assert/strict";
import { readFile, utimes, writeFile } from "node:fs/promises";
import path from "node:path";
import { describe, it } from "node:test";
import { systemClock } from "@kip/base";
import { temporaryFolder } from "@kip/testing";
import { updatableBuild, type UpdatableProduct } from "./updatable-build.ts";

/** A cache whose products contain what was offered when they were built. */
async function withCache(
  action: (
    build: (refresh: boolean, offered: string | Error) => Promise<UpdatableProduct>,
  ) => Promise<void>,
): Promise<void> {
  using cache = temporaryFolder();
  await action(
    async (refresh, offered) =>
      await updatableBuild({
        cacheDir: cache.path,
        kind: "os",
        key: "k",
        contentFile: "packages.txt",
        clock: systemClock,
        refresh,
        build: async (work) => {
          if (offered instanceof Error) throw offered;
          await writeFile(path.join(work, "packages.txt"), offered);
        },
      }),
  );
}

describe("updatableBuild()", () => {
  it("builds once, and again when it is asked to", async () => {
    await withCache(async (build) => {
      const first = await build(false, "1");
      assert.equal((await build(false, "2")).directory, first.directory);
      const second = await build(true, "2");
      assert.notEqual(second.key, first.key);
      assert.equal(await readFile(path.join(second.directory, "packages.txt"), "utf8"), "2");
      assert.deepEqual(await build(false, "3"), second);
    });
  });

  it("keeps the product when nothing newer is offered, and counts it as new", async () => {
    await withCache(async (build) => {
      const first = await build(false, "1");
      await utimes(path.join(first.directory, "packages.txt"), 1, 1);
      assert.equal((await build(false, "1")).currentAt, 1000);
      const again = await build(true, "1");
      assert.equal(again.directory, first.directory);
      assert.ok(again.currentAt > 1000);
      assert.deepEqual(await build(false, "1"), again);
    });
  });

  it("keeps the product when it cannot be built again", async () => {
    await withCache(async (build) => {
      const first = await build(true, "1");
      await assert.rejects(build(true, new Error("no network")), /no network/);
      assert.deepEqual(await build(false, "2"), first);
    });
  });
});
