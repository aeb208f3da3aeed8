import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { labelTags } from "./instance-tags.ts";

describe("labelTags()", () => {
  it("has the user's labels", () => {
    const labels = { team: "web", "app.kubernetes.io/name": "shop", empty: "" };
    assert.deepEqual(labelTags(labels), labels);
    assert.deepEqual(labelTags(undefined), {});
  });

  it("hostile pod: has none that kip's own tags could be taken for", () => {
    const labels = { "kip-standby": "true", "KIP-cluster": "x", "aws:x": "y", "kiyot.pod": "z" };
    assert.deepEqual(labelTags({ ...labels, "kubernetes.io/x": "y" }), {});
  });

  it("leaves out what some cloud does not take", () => {
    const long = `${"d".repeat(120)}/${"n".repeat(20)}`;
    assert.deepEqual(labelTags({ [long]: "1" }), {});
    const many = Object.fromEntries(Array.from({ length: 100 }, (_, at) => [`label${at}`, "1"]));
    assert.equal(Object.keys(labelTags(many)).length, 32);
  });
});
