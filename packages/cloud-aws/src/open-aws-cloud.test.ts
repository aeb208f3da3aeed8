import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isCodedError } from "@kip/base";
import { openAwsCloud } from "./open-aws-cloud.ts";

describe("openAwsCloud()", () => {
  it("says what to do in a region without built-in prices, before AWS is asked", async () => {
    for (const [region, code] of [
      ["cn-north-1", "CATALOG_UNKNOWN"],
      ["ap-east-2", "CATALOG_UNKNOWN"],
    ] as const)
      await assert.rejects(
        openAwsCloud({ owner: "me", region, endpointURL: "http://127.0.0.1:9" }),
        (error) =>
          isCodedError(error) &&
          error.code === code &&
          error.message.includes(`no region of aws "${region}"`) &&
          /give --instance-data-path/.test(error.remedy ?? ""),
      );
  });
});
