import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { podWith } from "@kip/k8s-types/testing";
import { fieldValue } from "./field-reference.ts";

describe("fieldValue()", () => {
  it("is empty for a label that has the name of a JavaScript method", () => {
    const pod = podWith({ metadata: { labels: {}, annotations: {} } });
    for (const name of ["constructor", "toString", "valueOf"])
      for (const map of ["labels", "annotations"])
        assert.equal(fieldValue(pod, `metadata.${map}['${name}']`), "");
    assert.equal(fieldValue(pod, "constructor"), undefined);
  });

  /** Text and how Go quotes it. */
  const cases: readonly (readonly [string, string])[] = [
    ["plain text, ☃ and 𝄞", '"plain text, ☃ and 𝄞"'],
    ['a "quote" and a \\', '"a \\"quote\\" and a \\\\"'],
    ["\n\t\r\b\f", '"\\n\\t\\r\\b\\f"'],
    ["\x07\v\x1b\x00\x7f", '"\\a\\v\\x1b\\x00\\x7f"'],
    ["\u00a0\u200b\ufeff\u2028", '"\\u00a0\\u200b\\ufeff\\u2028"'],
    ["\u{e0001}", '"\\U000e0001"'],
  ];
  for (const [text, expected] of cases)
    it(`writes ${expected} into a list of annotations`, () => {
      const pod = podWith({ metadata: { annotations: { key: text } } });
      assert.equal(fieldValue(pod, "metadata.annotations"), `key=${expected}`);
    });
});
