import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { codesOfUnions } from "./error-codes.ts";

describe("codesOfUnions()", () => {
  it("reads unions and lists of codes, and skips comments", () => {
    const text = `
      export type StoreErrorCode =
        /** The disk is full; "NOT_A_CODE". */
        | "STORE_FULL"
        | "STORE_LOCKED";
      export const cloudErrorCodes = ["CLOUD_AUTH"] as const;
      export type CloudErrorCode = (typeof cloudErrorCodes)[number];
      throw new StoreError("STORE_FULL");`;
    const { codes, rest } = codesOfUnions(text);
    assert.deepEqual(codes, ["STORE_FULL", "STORE_LOCKED", "CLOUD_AUTH"]);
    assert.ok(rest.includes('"STORE_FULL"') && !rest.includes('"STORE_LOCKED"'));
  });
});
