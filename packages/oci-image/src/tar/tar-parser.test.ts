import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import { tar, tarHeader, type RawEntry } from "@kip/testing";
import { ImageError } from "../errors.ts";
import type { TarEntry } from "./tar-entry.ts";
import { TarParser } from "./tar-parser.ts";

interface Read extends TarEntry {
  readonly content: string;
}

/** Parses an archive that arrives in pieces of the given sizes, the last size repeated. */
function parse(archive: Buffer, sizes: readonly number[] = [archive.length]): readonly Read[] {
  const entries: Read[] = [];
  let content = "";
  let current: TarEntry | undefined;
  const parser = new TarParser({
    entry: (entry) => {
      assert.equal(current, undefined, "the content of a file was not ended");
      if (entry.kind === "file") current = entry;
      else entries.push({ ...entry, content: "" });
    },
    content: (piece) => {
      content += piece.toString("latin1");
    },
    hole: () => {},
    contentEnd: () => {
      assert.ok(current);
      entries.push({ ...current, content });
      current = undefined;
      content = "";
    },
  });
  for (let at = 0, index = 0; at < archive.length; index++) {
    const size = sizes[Math.min(index, sizes.length - 1)] ?? archive.length;
    parser.write(archive.subarray(at, at + size));
    at += size;
  }
  parser.end();
  return entries;
}

const byteString = (maxLength: number): fc.Arbitrary<string> =>
  fc
    .uint8Array({ minLength: 1, maxLength })
    .map((bytes) => Buffer.from(bytes).toString("latin1").replaceAll("\0", "-"));

const rawEntry: fc.Arbitrary<RawEntry> = fc.record({
  // A trailing slash would make it a folder.
  name: byteString(300).map((name) => `${name}.`),
  mode: fc.integer({ min: 0, max: 0o7777 }),
  uid: fc.integer({ min: 0, max: 0o7777777 }),
  gid: fc.integer({ min: 0, max: 0o7777777 }),
  mtime: fc.integer({ min: 0, max: 0o77777777777 }),
  content: byteString(2000).map((text) => Buffer.from(text, "latin1")),
});
const pieces = fc.array(fc.integer({ min: 1, max: 1500 }), { minLength: 1, maxLength: 20 });

describe("TarParser", () => {
  it("reads back what was written, in whatever pieces it comes", () => {
    const property = fc.property(fc.array(rawEntry, { maxLength: 6 }), pieces, (entries, sizes) => {
      const read = parse(tar(entries), sizes);
      assert.deepEqual(
        read.map(({ name, mode, uid, gid, mtime, content }) => ({
          name,
          mode,
          uid,
          gid,
          mtime,
          content,
        })),
        entries.map((entry) => ({ ...entry, content: entry.content?.toString("latin1") ?? "" })),
      );
    });
    fc.assert(property, { numRuns: 200 });
  });

  it("answers damage with a failure of ours, never with another", () => {
    const archive = tar([
      { name: "folder/", type: "5" },
      {
        name: "p".repeat(150),
        content: "content",
        pax: { mtime: "1.5", "SCHILY.xattr.user.a": "b" },
      },
      { name: "l".repeat(150), type: "2", linkName: "t".repeat(150), gnu: true },
    ]);
    const damage = fc.array(
      fc.tuple(fc.nat(archive.length - 1), fc.integer({ min: 0, max: 255 })),
      { minLength: 1, maxLength: 30 },
    );
    const property = fc.property(
      damage,
      fc.nat(archive.length),
      pieces,
      (changes, length, sizes) => {
        const damaged = Buffer.from(archive);
        for (const [at, byte] of changes) damaged[at] = byte;
        // The checksum is corrected, so that the parser reads the fields after it.
        for (let at = 0; at < damaged.length; at += 512)
          repairChecksum(damaged.subarray(at, at + 512));
        onlyOurFailures(() => parse(damaged.subarray(0, length || damaged.length), sizes));
      },
    );
    fc.assert(property, { numRuns: 500 });
  });

  // Found by the property above or manually, and kept permanently.
  const kept: Readonly<Record<string, Buffer>> = {
    "a size in base 256 beyond all numbers": withField(124, Buffer.alloc(12, 0xff)),
    "a size in base 256 that is negative": withField(124, Buffer.from("ff".repeat(12), "hex")),
    "a size of digits that are not octal": withField(124, Buffer.from("00000000009\0")),
    "a PAX record with a length of nothing": pax("0 a=b\n"),
    "a PAX record that ends behind the header": pax("99 a=b\n"),
    "a PAX record without a line end": pax("6 a=bc"),
    "a PAX record without a key": pax("5 =b\n"),
    "a PAX record with no length": pax(" a=b\n"),
    "a PAX size with a sign": pax("11 size=+5\n"),
    "a PAX time with two points": pax("15 mtime=1.2.3\n"),
    "extended headers and no entry": Buffer.concat([
      pax("6 a=b\n").subarray(0, 1024),
      Buffer.alloc(1024),
    ]),
    "a block of zeros between entries": Buffer.concat([
      tar([{ name: "a" }]).subarray(0, 512),
      Buffer.alloc(512),
      tar([{ name: "b" }]),
    ]),
    "a folder with content": tar([{ name: "a/", content: "x" }]),
  };
  for (const [what, archive] of Object.entries(kept)) {
    it(`refuses ${what}`, () => {
      assert.throws(() => parse(archive), { code: "IMAGE_INVALID" });
      assert.throws(() => parse(archive, [1]), { code: "IMAGE_INVALID" });
    });
  }

  it("takes PAX before GNU before the header", () => {
    const [entry] = parse(
      tar([{ name: "n".repeat(120), gnu: true, pax: { path: "pax", uid: "5" } }]),
    );
    assert.equal(entry?.name, "pax");
    assert.equal(entry.uid, 5);
    const [gnu] = parse(tar([{ name: "n".repeat(120), gnu: true }]));
    assert.equal(gnu?.name.length, 120);
  });

  it("reads numbers in base 256, and times before 1970", () => {
    const size = Buffer.alloc(12);
    size[0] = 0x80;
    const early = Buffer.alloc(12, 0xff);
    const archive = withField(136, early);
    assert.equal(parse(withField(124, size))[0]?.size, 0);
    assert.equal(parse(archive)[0]?.mtime, -1);
  });

  it("ignores what follows the end", () => {
    const archive = Buffer.concat([tar([{ name: "a", content: "x" }]), Buffer.alloc(700, 7)]);
    assert.deepEqual(
      parse(archive, [100]).map(({ name }) => name),
      ["a"],
    );
  });

  it("takes a name that ends in a slash for a folder", () => {
    assert.equal(parse(tar([{ name: "a/" }]))[0]?.kind, "directory");
  });
});

function onlyOurFailures(run: () => void): void {
  try {
    run();
  } catch (error) {
    if (!ImageError.is(error, "IMAGE_INVALID")) throw error;
  }
}

function withField(at: number, bytes: Buffer): Buffer {
  const archive = tar([{ name: "a" }]);
  bytes.copy(archive, at);
  repairChecksum(archive.subarray(0, 512));
  return archive;
}

function pax(records: string): Buffer {
  const body = Buffer.alloc(512);
  body.write(records);
  const head = tarHeader({ name: "x", type: "x", size: records.length });
  return Buffer.concat([head, body, tar([{ name: "a" }])]);
}

function repairChecksum(block: Buffer): void {
  if (block.length < 512 || block.every((byte) => byte === 0)) return;
  block.fill(0x20, 148, 156);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
}
