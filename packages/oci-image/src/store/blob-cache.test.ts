import assert from "node:assert/strict";
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { missing, temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { digestOf } from "../digest.ts";
import type { ImageSource } from "../image-source.ts";
import { throughCache } from "./blob-cache.ts";

describe("a cache of blobs", () => {
  it(
    "whose manifest cannot be read is as good as none",
    // Who may read everything becomes somebody who may not.
    { skip: missing({ root: true, programs: [] }) },
    async () => {
      using folder = temporaryFolder();
      const bytes = Buffer.from("{}");
      const descriptor = { mediaType: "", digest: digestOf(bytes), size: bytes.length };
      const blobs = path.join(folder.path, "blobs/sha256");
      mkdirSync(blobs, { recursive: true });
      writeFileSync(path.join(blobs, descriptor.digest.slice(7)), bytes, { mode: 0 });
      chmodSync(folder.path, 0o755);
      const asked: string[] = [];
      const source: ImageSource = {
        root: () => assert.fail(),
        blob: () => assert.fail(),
        manifest: async ({ digest }) => {
          asked.push(digest);
          return await Promise.resolve({ bytes, digest });
        },
      };
      process.seteuid?.(65_534);
      try {
        await throughCache(source, folder.path, () => assert.fail()).manifest(descriptor);
      } finally {
        process.seteuid?.(0);
      }
      assert.deepEqual(asked, [descriptor.digest]);
    },
  );
});
