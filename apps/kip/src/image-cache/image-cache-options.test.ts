import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseOptions } from "@kip/base";
import {
  collectionOf,
  imageCacheOptions,
  intervalOf,
  listedNames,
  unusedForOf,
} from "./image-cache-options.ts";

const read = (...args: readonly string[]) => parseOptions(imageCacheOptions, args, {});

describe("the options of kip image-cache", () => {
  it("have times in units", () => {
    assert.equal(intervalOf(read(), "refresh"), 3_600_000);
    assert.equal(intervalOf(read("--collect=90s"), "collect"), 90_000);
    assert.equal(unusedForOf(read()), 7 * 86_400_000);
    assert.equal(unusedForOf(read("--unused-for=off")), Number.POSITIVE_INFINITY);
    assert.equal(unusedForOf(read("--unused-for=2000h")), 2000 * 3_600_000);
  });

  it("refuse times that are too short, too long for a timer, or none", () => {
    for (const text of ["0", "999ms", "600h", "soon"])
      assert.throws(() => intervalOf(read(`--refresh=${text}`), "refresh"), {
        code: "OPTION_INVALID",
      });
    for (const text of ["0", "never"])
      assert.throws(() => unusedForOf(read(`--unused-for=${text}`)), { code: "OPTION_INVALID" });
  });

  it("refuse to look for unused images as seldom as they may be removed", () => {
    for (const collect of ["1h", "61m"])
      assert.throws(() => collectionOf(read(`--collect=${collect}`, "--unused-for=1h")), {
        code: "OPTION_INVALID",
        message: new RegExp(`--collect ${collect} with --unused-for 1h`),
      });
    const values = { collectMs: 3_540_000, unusedForMs: 3_600_000 };
    assert.deepEqual(collectionOf(read("--collect=59m", "--unused-for=1h")), values);
    assert.equal(collectionOf(read("--unused-for=off")).unusedForMs, Number.POSITIVE_INFINITY);
  });

  it("have a list of one name a line, with comments", () => {
    assert.deepEqual(listedNames("# base images\n\n busybox:1 \r\nquay.io/a/b\n"), [
      "busybox:1",
      "quay.io/a/b",
    ]);
  });
});
