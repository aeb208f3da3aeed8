import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import { globMatches, maxGlobLength } from "./glob.ts";
import { growth } from "./testing/index.ts";

describe("globMatches()", () => {
  for (const [pattern, text, isMatch] of [
    ["t3.*", "t3.large", true],
    ["t3.*", "t3axlarge", false],
    ["*", "", true],
    ["", "", true],
    ["", "a", false],
    ["?", "", false],
    ["a?c", "abc", true],
    ["*.nano", "t4g.nano.nano", true],
    ["a*b*c", "a-b-b-c", true],
    ["a*b*c", "a-c-b", false],
    ["[a-z]", "b", false],
    ["**a", "ba", true],
  ] as const) {
    it(`${isMatch ? "takes" : "refuses"} "${text}" for "${pattern}"`, () =>
      assert.equal(globMatches(pattern, text), isMatch));
  }

  it("agrees with a definition by cases", () => {
    const isMatch = (pattern: string, text: string): boolean => {
      const [first] = pattern;
      if (first === undefined) return text === "";
      if (first === "*")
        return isMatch(pattern.slice(1), text) || (text !== "" && isMatch(pattern, text.slice(1)));
      return (
        text !== "" &&
        (first === "?" || first === text[0]) &&
        isMatch(pattern.slice(1), text.slice(1))
      );
    };
    const pattern = fc.string({ unit: fc.constantFrom("a", "b", "*", "?"), maxLength: 7 });
    const text = fc.string({ unit: fc.constantFrom("a", "b"), maxLength: 9 });
    fc.assert(
      fc.property(pattern, text, (one, other) => {
        assert.equal(globMatches(one, other), isMatch(one, other));
      }),
      { numRuns: 2000 },
    );
  });

  it("matches nothing with a pattern that is too long", () => {
    assert.equal(globMatches("*".repeat(maxGlobLength), "a"), true);
    assert.equal(globMatches("*".repeat(maxGlobLength + 1), "a"), false);
  });

  it("takes linear time for a text of a tenant, whatever the pattern", async () => {
    const pattern = `${"*a".repeat(126)}z`;
    assert.ok((await growth((size) => globMatches(pattern, "a".repeat(size)), 256 * 1024)) < 40);
  });
});
