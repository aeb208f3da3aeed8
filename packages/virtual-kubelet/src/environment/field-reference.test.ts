import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { podWith } from "@kip/k8s-types/testing";
import { fieldValue } from "./field-reference.ts";

describe("fieldValue()", () => {
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
