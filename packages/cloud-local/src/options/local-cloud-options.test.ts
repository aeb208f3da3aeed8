import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { resolveLocalCloudOptions } from "./local-cloud-options.ts";

describe("resolveLocalCloudOptions()", () => {
  it("refuses machines of no architecture, which could run no pod", () => {
    const options = { owner: "tests", stateDir: "/state", imagesDir: "/images" };
    assert.equal(resolveLocalCloudOptions(options).architectures.length, 1);
    assert.throws(() => resolveLocalCloudOptions({ ...options, architectures: [] }), {
      code: "CLOUD_INVALID_REQUEST",
      message: /no architectures/,
    });
  });
});
