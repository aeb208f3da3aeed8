import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { OptionError } from "@kip/base";
import { parseDuration } from "./duration.ts";

describe("parseDuration()", () => {
  const good: readonly (readonly [string, number])[] = [
    ["40", 40_000],
    ["0", 0],
    ["1.5", 1500],
    ["120s", 120_000],
    ["500ms", 500],
    ["1m30s", 90_000],
    ["1h", 3_600_000],
  ];
  for (const [text, ms] of good)
    it(`reads ${text}`, () => assert.equal(parseDuration("notice", text), ms));

  for (const text of ["", "s", "-1s", "1 s", "1d", "1s2", "x1s", "1e3", "700h"])
    it(`refuses "${text}"`, () =>
      assert.throws(
        () => parseDuration("notice", text),
        (error) => OptionError.is(error, "OPTION_INVALID") && String(error).includes("--notice"),
      ));
});
