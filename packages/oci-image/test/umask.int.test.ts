// The caller's umask must not change modes in trees, or who may read a shared cache.
import assert from "node:assert/strict";
import { readdirSync, statSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { silentLogger, systemClock } from "@kip/base";
import { startLayoutRegistry, tar, temporaryFolder, writeLayout } from "@kip/testing";
import { openImageStore, parseReference, prefetchImage } from "../src/index.ts";
import { listTree } from "./fixtures/tree-listing.ts";

const entries = [
  { name: "opt/app/file", mode: 0o644 },
  { name: "shared/", type: "5", mode: 0o2775 },
  { name: "shared/below/file", mode: 0o4755 },
  { name: "tmp/", type: "5", mode: 0o1777 },
  { name: "log", type: "6", mode: 0o666 },
];

function withUmask<T>(umask: number, work: () => Promise<T>): Promise<T> {
  const before = process.umask(umask);
  return work().finally(() => process.umask(before));
}

describe("with a strict umask", () => {
  for (const umask of [0o022, 0o027, 0o077]) {
    const name = umask.toString(8).padStart(3, "0");

    it(`openImageStore() unpacks the same modes: ${name}`, async () => {
      using work = temporaryFolder();
      const layout = path.join(work.path, "layout");
      writeLayout(layout, { layers: [tar(entries)] });
      const root = path.join(work.path, "store");
      const tree = await withUmask(umask, async () => {
        const store = await openImageStore({ root, logger: silentLogger, clock: systemClock });
        const { layers } = await store.importLayout(layout, parseReference("app"));
        return layers[0] ?? "";
      });
      const modes = listTree(tree).map((line) => line.split(" ").slice(0, 3).join(" "));
      assert.deepEqual(modes, [
        " 40000 755",
        "log 10000 666",
        "opt 40000 755",
        "opt/app 40000 755",
        "opt/app/file 100000 644",
        "shared 40000 2775",
        "shared/below 40000 2755",
        "shared/below/file 100000 4755",
        "tmp 40000 1777",
      ]);
      const store = statSync(path.join(root, "trees"));
      assert.equal(store.mode & 0o7777, 0o700);
    });

    it(`prefetchImage() makes a cache that other users may read: ${name}`, async () => {
      using work = temporaryFolder();
      const layout = path.join(work.path, "layout");
      writeLayout(layout, { layers: [tar(entries)] });
      const cache = path.join(work.path, "cache");
      await using registry = await startLayoutRegistry(layout);
      const registries = [{ host: registry.host, endpoint: `http://${registry.host}` }];
      const reference = parseReference(`${registry.host}/app`);
      await withUmask(umask, async () => await prefetchImage(reference, cache, { registries }));
      const blobs = path.join(cache, "blobs/sha256");
      for (const folder of [cache, path.dirname(blobs), blobs]) {
        assert.equal(statSync(folder).mode & 0o7777, 0o755, folder);
      }
      const files = readdirSync(blobs);
      assert.equal(files.length, 3);
      for (const file of files) {
        assert.equal(statSync(path.join(blobs, file)).mode & 0o7777, 0o644);
      }
    });
  }
});
