// Random images made of the building blocks of attacks. Whatever happens to one, the rest of the disk must be unchanged,
// nothing may be left behind, and a refusal must name the place and the reason. KIP_FUZZ_RUNS=5000 makes a long run. Seeds that
// once found a defect are kept below.
import assert from "node:assert/strict";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { gzipSync } from "node:zlib";
import * as fc from "fast-check";
import { silentLogger, systemClock } from "@kip/base";
import { tar, tarEntry, temporaryFolder, writeLayout, type RawEntry } from "@kip/testing";
import { ImageError } from "../src/errors.ts";
import { openImageStore, parseReference } from "../src/index.ts";
import { TarParser } from "../src/tar/tar-parser.ts";
import { inflate } from "../src/unpack/inflate.ts";
import { listTree } from "./fixtures/tree-listing.ts";

const runs = Number(process.env["KIP_FUZZ_RUNS"] ?? 150);
const keptSeeds: readonly number[] = [1, 20_261_121, -1_403_998_112];

/** Folders, files and links mostly. */
const kinds = Array.from("000000555555222222111136S7gZ");

/** Names that often collide and that lead outside. */
function paths(outside: string): fc.Arbitrary<string> {
  const common = ["a", "b", "c", "l"];
  const parts = [
    ...common,
    ...common,
    ...common,
    "a",
    "b",
    "c",
    "l",
    "..",
    ".",
    "",
    ".wh.a",
    ".wh.b",
    ".wh..wh..opq",
    "\u00ff",
    "a\\b",
    "A",
  ];
  const relative = fc.array(fc.constantFrom(...parts), { minLength: 1, maxLength: 5 });
  return fc.oneof(
    { weight: 8, arbitrary: relative.map((it) => it.join("/")) },
    { weight: 1, arbitrary: fc.constantFrom(outside, `${outside}/secret`, `../../outside/secret`) },
    { weight: 1, arbitrary: relative.map((it) => `${"d/".repeat(40)}${it.join("/")}`) },
  );
}

function seldom<T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> {
  return fc.oneof(
    { weight: 25, arbitrary: fc.constant(undefined) },
    { weight: 1, arbitrary: value },
  );
}

function entries(outside: string): fc.Arbitrary<RawEntry> {
  const name = paths(outside);
  const pax = seldom(
    fc.dictionary(
      fc.constantFrom(
        "path",
        "linkpath",
        "size",
        "uid",
        "mtime",
        "GNU.sparse.map",
        "GNU.sparse.size",
        "GNU.sparse.major",
        "SCHILY.xattr.user.x",
        "SCHILY.xattr.trusted.overlay.opaque",
      ),
      fc.oneof(name, fc.constantFrom("0", "1", "-1", "0,1", "1e9", "9007199254740993", "x\0y")),
      { maxKeys: 2 },
    ),
  );
  return fc
    .record({
      name,
      type: fc.constantFrom(...kinds),
      linkName: name,
      mode: fc.constantFrom(0o644, 0o755, 0, 0o7777),
      content: fc.constantFrom("", "x", "y".repeat(600)),
      size: seldom(fc.constantFrom(0, 1, 8 ** 10)),
      pax,
    })
    .map(({ size, pax: records, content, ...rest }) => {
      const holds = /[07SZg]/.test(rest.type);
      return {
        ...rest,
        content: holds ? content : "",
        ...(size !== undefined && { size }),
        ...(records !== undefined && { pax: records }),
      };
    });
}

describe("the unpacker", () => {
  it("containerd's fuzzing audit: leaves the rest of the disk alone, whatever an image holds", async (context) => {
    using work = temporaryFolder();
    const outside = path.join(work.path, "outside");
    mkdirSync(path.join(outside, "folder"), { recursive: true });
    writeFileSync(path.join(outside, "secret"), "secret");
    const before = listTree(outside);
    const root = path.join(work.path, "store");
    const limits = { unpackedBytes: 10_000_000, entries: 1000, layers: 10, depth: 50 };
    const store = await openImageStore({ root, logger: silentLogger, clock: systemClock, limits });
    const layout = path.join(work.path, "layout");
    let unpacked = 0;
    let refused = 0;
    const images = fc.array(fc.array(entries(outside), { maxLength: 8 }), {
      minLength: 1,
      maxLength: 4,
    });
    const property = fc.asyncProperty(images, async (layers) => {
      writeLayout(layout, { layers: layers.map(tar), compression: "none" });
      try {
        await store.importLayout(layout, parseReference("app"));
        unpacked++;
      } catch (error) {
        refused++;
        assert.ok(
          error instanceof ImageError,
          error instanceof Error ? error.stack : String(error),
        );
        assert.match(error.code, /^IMAGE_/);
        assert.match(
          error.message,
          /^Cannot import image "docker.io\/library\/app:latest".*: layer \d+ of \d+: /s,
        );
        assert.ok(error.remedy !== undefined);
      }
      assert.deepEqual(listTree(outside), before);
      assert.deepEqual(readdirSync(path.join(root, "tmp")), []);
      assert.deepEqual(readdirSync(work.path).sort(), ["layout", "outside", "store"]);
    });
    for (const seed of [...keptSeeds, Math.floor(Math.random() * 2 ** 31)]) {
      await fc.assert(property, { numRuns: Math.ceil(runs / 4), seed });
    }
    context.diagnostic(`${unpacked} images unpacked, ${refused} refused`);
    assert.ok(unpacked > 0 && refused > 0);
  });

  it("ends on any bytes, as tar, gzip or zstd", async () => {
    const whole = Buffer.concat([
      tarEntry({ name: "a", content: "x".repeat(700), pax: { path: "b" } }),
      tarEntry({ name: "n".repeat(300), content: "y", gnu: true }),
      tarEntry({ name: "s", type: "S", content: "z" }),
      Buffer.alloc(1024),
    ]);
    const sink = { entry() {}, content() {}, hole() {}, contentEnd() {} };
    const damage = fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 6 });
    const property = fc.asyncProperty(
      damage,
      fc.nat(),
      fc.boolean(),
      async (bytes, end, isPacked) => {
        const archive = Buffer.from(isPacked ? gzipSync(whole) : whole);
        for (const [at, byte] of bytes) archive[at % archive.length] = byte;
        const cut = archive.subarray(0, Math.max(4, end % (archive.length + 1)));
        const parser = new TarParser(sink);
        try {
          for await (const chunk of inflate(one(cut))) parser.write(chunk);
          parser.end();
        } catch (error) {
          assert.ok(
            error instanceof ImageError,
            error instanceof Error ? error.stack : String(error),
          );
          assert.equal(error.code, "IMAGE_INVALID");
        }
      },
    );
    for (const seed of keptSeeds) await fc.assert(property, { numRuns: runs, seed });
    await fc.assert(property, { numRuns: runs });
  });
});

async function* one(bytes: Buffer): AsyncGenerator<Buffer> {
  yield await Promise.resolve(bytes);
}
