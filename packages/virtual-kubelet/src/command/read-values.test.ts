import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { labelValue } from "./read-values.ts";

describe("labelValue()", () => {
  const cases = [
    ["mock", "mock"],
    ["@acme/vk-provider", "acme-vk-provider"],
    ["/opt/providers/process_provider.ts", "process_provider"],
    [`a${"-".repeat(70)}b`, "a"],
  ] as const;
  for (const [provider, expected] of cases)
    it(`of ${provider} is ${expected}`, () => assert.equal(labelValue(provider), expected));
});
