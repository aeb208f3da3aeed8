import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import { VirtualKubeletError } from "../errors.ts";
import { expandSubPath, expandVariables } from "./expand-variables.ts";

const variables = new Map([
  ["VAR_A", "A"],
  ["VAR_B", "B"],
  ["VAR_C", "C"],
  ["VAR_REF", "$(VAR_A)"],
  ["VAR_EMPTY", ""],
]);

/** Input and result of each rule of the grammar. */
const cases: readonly (readonly [string, string])[] = [
  ["$(VAR_A)", "A"],
  ["___$(VAR_B)___", "___B___"],
  ["$(VAR_A)-1", "A-1"],
  ["$(VAR_A)$(VAR_B)", "AB"],
  ["$(VAR_A)_$(VAR_B)_$(VAR_C)", "A_B_C"],
  ["$$(VAR_B)_$(VAR_A)", "$(VAR_B)_A"],
  ["$$(VAR_A)_$$(VAR_B)", "$(VAR_A)_$(VAR_B)"],
  ["f000-$$VAR_A", "f000-$VAR_A"],
  ["foo\\$(VAR_C)bar", "foo\\Cbar"],
  ["foo\\\\$(VAR_C)bar", "foo\\\\Cbar"],
  ["foo$(VAR_EMPTY)bar", "foobar"],
  ["foo$(VAR_Awhoops!", "foo$(VAR_Awhoops!"],
  ["f00__(VAR_A)__", "f00__(VAR_A)__"],
  ["$?_boo_$!", "$?_boo_$!"],
  ["$VAR_A", "$VAR_A"],
  ["$(VAR_DNE)", "$(VAR_DNE)"],
  ["$$$(VAR_A)", "$A"],
  ["$$$$(VAR_A)", "$$(VAR_A)"],
  ["$$$$$(VAR_A)", "$$A"],
  ["$", "$"],
  ["$(", "$("],
  ["foobarbaz$", "foobarbaz$"],
  ["$(VAR_A)$", "A$"],
  ["$(VAR_REF)", "$(VAR_A)"],
  ["%%$(VAR_REF)--$(VAR_REF)%%", "%%$(VAR_A)--$(VAR_A)%%"],
  ["${VAR_A}", "${VAR_A}"],
  ["$(VAR_A$(VAR_B))", "$(VAR_A$(VAR_B))"],
  ["$($$$(VAR_A", "$($$(VAR_A"],
  ["", ""],
];

describe("expandVariables() (X1)", () => {
  for (const [text, expected] of cases) {
    it(`makes ${JSON.stringify(expected)} of ${JSON.stringify(text)}`, () => {
      assert.equal(expandVariables(text, variables), expected);
    });
  }

  it("reads a long text in linear time, however many references it opens", () => {
    const text = "$(".repeat(500_000); // took minutes when the end of each was searched separately
    assert.equal(expandVariables(text, variables), text);
  });

  it("refuses an environment that is too large for any program", () => {
    const long = new Map([["LONG", "x".repeat(100_000)]]);
    assert.throws(
      () => expandVariables("$(LONG)".repeat(1000), long),
      (error) => VirtualKubeletError.is(error, "VK_UNRESOLVED"),
    );
  });

  it("leaves every text without a dollar sign as it is", () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        fc.pre(!text.includes("$"));
        assert.equal(expandVariables(text, variables), text);
      }),
    );
  });
});

describe("expandSubPath()", () => {
  it("requires a value for each variable", () => {
    assert.equal(expandSubPath("a/$(VAR_A)/$$(VAR_B)", variables), "a/A/$(VAR_B)");
    for (const text of ["$(VAR_EMPTY)", "$(VAR_DNE)/logs"])
      assert.throws(
        () => expandSubPath(text, variables),
        (error) => VirtualKubeletError.is(error, "VK_UNRESOLVED"),
      );
  });
});
