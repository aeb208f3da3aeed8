import assert from "node:assert/strict";
import { describe, it } from "node:test";
import v8 from "node:v8";
import vm from "node:vm";
import { ImageError } from "../errors.ts";
import { defaultUnpackLimits } from "./limits.ts";
import { PathSet } from "./path-set.ts";
import { LayerPaths } from "./whiteouts.ts";

v8.setFlagsFromString("--expose-gc");
const collectGarbage = vm.runInNewContext("gc") as () => void; // what the flag adds

function usedBytes(): number {
  collectGarbage();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

describe("PathSet", () => {
  it("holds what was added and nothing else", () => {
    const set = new PathSet(() => {});
    const names = Array.from({ length: 5000 }, (_, index) => `usr/lib/${index}/file-${index % 7}`);
    for (const name of names) assert.equal(set.add(name), true);
    for (const name of names) assert.equal(set.add(name), false);
    assert.ok(names.every((name) => set.has(name)));
    assert.ok(!names.some((name) => set.has(`${name}/`) || set.has(name.slice(1))));
    assert.equal(set.has(""), false);
    set.clear();
    assert.ok(!names.some((name) => set.has(name)));
    assert.equal(set.add(names[0] ?? ""), true);
  });

  it("tells names apart that differ in one byte anywhere, or in their order", () => {
    const set = new PathSet(() => {});
    const length = 64;
    const names = new Set<string>();
    for (let at = 0; at < length; at++) {
      for (let byte = 1; byte < 256; byte++) {
        const bytes = Buffer.alloc(length, "a");
        bytes[at] = byte;
        names.add(bytes.toString("latin1"));
      }
      names.add("ab".repeat(at));
      names.add("ba".repeat(at));
    }
    for (const name of names) assert.equal(set.add(name), true, JSON.stringify(name));
  });
});

describe("LayerPaths", () => {
  it("takes no more memory than its limit, whatever the names", () => {
    const limit = 2 * 1024 * 1024;
    for (const name of [
      (index: number) => index.toString(36),
      (index: number) => `${index.toString(36)}/${"n".repeat(200)}`,
    ]) {
      const paths = new LayerPaths(limit);
      const before = usedBytes();
      const fill = (): void => {
        for (let index = 0; index < 4_000_000; index++) paths.add(name(index));
      };
      assert.throws(fill, (error) => ImageError.is(error, "IMAGE_LIMIT_EXCEEDED"));
      const used = usedBytes() - before;
      assert.ok(used < limit * 1.5, `${used} bytes`);
      assert.equal(paths.has(name(0)), true);
    }
  });

  it("counts folders that whiteouts have cleared", () => {
    const paths = new LayerPaths(100_000);
    const clear = (): void => {
      for (let index = 0; index < 1_000_000; index++) paths.clearFolder(`${index}`);
    };
    assert.throws(clear, (error) => ImageError.is(error, "IMAGE_LIMIT_EXCEEDED"));
  });

  it("has room for as many names as an image may have", () => {
    // Tables double in size, so a fraction of the names needs the same fraction of the limit.
    const part = 64;
    const paths = new LayerPaths(defaultUnpackLimits.nameBytes / part);
    const last = defaultUnpackLimits.entries / part;
    for (let index = 1; index <= last; index++) paths.add(`${index}`);
    assert.equal(paths.has(`${last}`), true);
  });
});
