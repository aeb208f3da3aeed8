import assert from "node:assert/strict";
import { chmodSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { Readable } from "node:stream";
import { describe, it } from "node:test";
import { systemClock } from "@kip/base";
import { temporaryFolder } from "@kip/testing";
import { missing } from "../../test/fixtures/missing.ts";
import { digestOf } from "../digest.ts";
import type { ImageSource } from "../image-source.ts";
import { parseReference } from "../reference.ts";
import { BlobCache } from "./blob-cache.ts";
import { throughCache } from "./cached-source.ts";

describe("BlobCache", () => {
  it("is not written where a link of another filler leads", async () => {
    for (const planted of ["blobs", "blobs/sha256"]) {
      using folder = temporaryFolder();
      const [cache, outside] = [path.join(folder.path, "cache"), path.join(folder.path, "outside")];
      mkdirSync(path.dirname(path.join(cache, planted)), { recursive: true });
      mkdirSync(path.join(outside, "sha256"), { recursive: true });
      symlinkSync(
        planted === "blobs" ? outside : path.join(outside, "sha256"),
        path.join(cache, planted),
      );
      const bytes = Buffer.from("content");
      const descriptor = { mediaType: "", digest: digestOf(bytes), size: bytes.length };
      using blobs = BlobCache.public(cache);
      const taken = blobs.takeOnce(descriptor, () => assert.fail(), { clock: systemClock });
      await assert.rejects(taken, { code: "ENOTDIR" });
      await assert.rejects(blobs.write(descriptor, (async function* () {})()), { code: "ENOTDIR" });
      assert.deepEqual(readdirSync(path.join(outside, "sha256")), []);
    }
  });

  it(
    "whose manifest cannot be read is as good as none",
    // Root may read everything, so the test switches to a user who may not.
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
        const parts = [BlobCache.public(folder.path)];
        await throughCache(source, parts, () => assert.fail()).manifest(descriptor);
      } finally {
        process.seteuid?.(0);
      }
      assert.deepEqual(asked, [descriptor.digest]);
    },
  );

  it(
    "gives public blobs to those who may not look at private ones",
    { skip: missing({ root: true, programs: [] }) },
    async () => {
      using folder = temporaryFolder();
      const reference = parseReference("registry.example.com/team/app");
      const blobs = ["public", "private"].map((text) => {
        const bytes = Buffer.from(text);
        return { bytes, mediaType: "", digest: digestOf(bytes), size: bytes.length };
      });
      chmodSync(folder.path, 0o755);
      const parts = [BlobCache.private(folder.path, reference), BlobCache.public(folder.path)];
      for (const [index, part] of parts.toReversed().entries()) {
        const blob = blobs[index] ?? assert.fail();
        await part.write(blob, Readable.from([blob.bytes]));
        part[Symbol.dispose]();
      }
      const asked: string[] = [];
      const source: ImageSource = {
        root: () => assert.fail(),
        manifest: () => assert.fail(),
        blob: async ({ digest }) => {
          asked.push(digest);
          return await Promise.resolve(Readable.from([]));
        },
      };
      process.seteuid?.(65_534);
      try {
        const cached = throughCache(source, parts, () => {});
        for (const blob of blobs.toReversed()) await cached.blob(blob);
      } finally {
        process.seteuid?.(0);
      }
      assert.deepEqual(asked, [blobs[1]?.digest]);
    },
  );
});
