import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, utimes, writeFile } from "node:fs/promises";
import path from "node:path";
import { describe, it } from "node:test";
import { temporaryFolder } from "@kip/testing";
import { markImageUsed, cachedBuild, type CachedBuild } from "./build-cache.ts";

async function withCache(
  action: (
    folder: string,
    build: (options: Partial<CachedBuild>) => Promise<string>,
  ) => Promise<void>,
): Promise<void> {
  using cache = temporaryFolder();
  const folder = path.join(cache.path, "thing");
  await action(folder, async (options) => {
    const write = async (work: string) => await writeFile(path.join(work, "file"), "made");
    return await cachedBuild({
      cacheDir: cache.path,
      kind: "thing",
      key: "k",
      build: write,
      ...options,
    });
  });
}

describe("cachedBuild()", () => {
  it("builds once", async () => {
    await withCache(async (folder, build) => {
      assert.equal(await build({}), path.join(folder, "k"));
      await build({ build: async () => assert.fail("built twice") });
      assert.equal(await readFile(path.join(folder, "k", "file"), "utf8"), "made");
    });
  });

  it("leaves nothing of a build that fails, and builds again", async () => {
    await withCache(async (folder, build) => {
      const failing = build({
        build: async (work) => {
          await writeFile(path.join(work, "half"), "");
          throw new Error("no disk");
        },
      });
      await assert.rejects(failing, /no disk/);
      assert.deepEqual(await readdir(folder), [".lock"]);
      await build({});
      assert.ok(existsSync(path.join(folder, "k", "file")));
    });
  });

  it("removes what a killed builder left", async () => {
    await withCache(async (folder, build) => {
      await mkdir(path.join(folder, ".part-dead"), { recursive: true });
      await build({});
      assert.deepEqual((await readdir(folder)).sort(), [".lock", "k"]);
    });
  });

  it("has every file on the disk before the product has its name", async () => {
    await withCache(async (folder, build) => {
      const synced: string[] = [];
      const sync = async (place: string): Promise<void> => {
        assert.ok(!existsSync(path.join(folder, "k")));
        synced.push(path.basename(place));
        await Promise.resolve();
      };
      const inside = async (work: string): Promise<void> => {
        await mkdir(path.join(work, "blobs"));
        await writeFile(path.join(work, "blobs", "one"), "");
        await writeFile(path.join(work, "two"), "");
      };
      await build({ build: inside, sync });
      assert.deepEqual(synced.slice(0, -1).sort(), ["blobs", "one", "two"]);
      await build({ key: "by itself", build: inside });
    });
  });

  it("makes a second builder wait, who then finds the product", async () => {
    await withCache(async (_folder, build) => {
      const started = Promise.withResolvers<void>();
      const waiting = Promise.withResolvers<void>();
      const first = build({
        build: async () => {
          started.resolve();
          await waiting.promise;
        },
      });
      await started.promise;
      const second = build({
        onWait: waiting.resolve,
        build: async () => assert.fail("built twice"),
      });
      assert.equal(await second, await first);
    });
  });

  it("stops waiting when its signal aborts", async () => {
    await withCache(async (_folder, build) => {
      const started = Promise.withResolvers<void>();
      const release = Promise.withResolvers<void>();
      const first = build({
        build: async () => {
          started.resolve();
          await release.promise;
        },
      });
      await started.promise;
      const stop = new AbortController();
      const second = build({
        signal: stop.signal,
        onWait: () => stop.abort(new Error("Interrupted")),
      });
      await assert.rejects(second, /Interrupted/);
      release.resolve();
      await first;
    });
  });

  it("collects products unused for a day, but not the last ones", async () => {
    await withCache(async (folder, build) => {
      for (const [index, key] of ["a", "b", "c", "d"].entries()) {
        await build({ key });
        const usedAt = new Date(Date.now() - (10 - index) * 24 * 3600 * 1000);
        await utimes(path.join(folder, key), usedAt, usedAt);
      }
      await build({ key: "new" });
      assert.deepEqual((await readdir(folder)).sort(), [".lock", "c", "d", "new"]);
    });
  });

  it("keeps an image that a running cluster uses", async () => {
    await withCache(async (folder, build) => {
      const images = path.join(folder, "../images");
      const keys = ["running", "a", "b", "c"];
      for (const key of keys) await build({ key, kind: "images" });
      const longAgo = new Date(Date.now() - 10 * 24 * 3600 * 1000);
      for (const key of keys) await utimes(path.join(images, key), longAgo, longAgo);
      await markImageUsed(path.dirname(folder), "running");
      await markImageUsed(path.dirname(folder), "gone");
      await build({ key: "new", kind: "images" });
      const left = await readdir(images);
      assert.ok(left.includes("running"));
      assert.equal(left.length, 4, "also the lock, the new image and one of the unused");
    });
  });
});
