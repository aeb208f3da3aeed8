import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { readCommandLine } from "./command-line.ts";
import { commonOptions } from "./option-table.ts";

const read = (...args: readonly string[]) => readCommandLine(commonOptions, args, {});

describe("readCommandLine()", () => {
  it("reads flags as Go does, among words", () => {
    const { words, options } = read(
      "unpack",
      "-workdir",
      "/w",
      "--image=a=b",
      "-parallel-downloads",
      "-1",
      "-json",
      "name",
      "-insecure=a",
      "-insecure",
      "b",
      "--",
      "-dir",
    );
    assert.deepEqual(words, ["unpack", "name", "-dir"]);
    assert.equal(options.text("workdir"), "/w");
    assert.equal(options.text("image"), "a=b");
    assert.equal(options.integer("parallel-downloads", { min: -1, max: 9 }), -1);
    assert.equal(options.isSet("json"), true);
    assert.equal(options.isSet("quiet"), false);
    assert.deepEqual(options.list("insecure"), ["a", "b"]);
  });

  it("has the original's defaults", () => {
    const { options } = read();
    assert.equal(options.text("workdir"), "/tmp/tosi");
    assert.equal(options.text("parallel-downloads"), "4");
    assert.equal(options.isSet("validate-cache"), false);
  });

  it("names the nearest flag, and wants values", () => {
    assert.throws(() => read("-imgae", "x"), { code: "OPTION_UNKNOWN", remedy: /--image/ });
    assert.throws(() => read("-image"), { code: "OPTION_INVALID" });
  });
});
