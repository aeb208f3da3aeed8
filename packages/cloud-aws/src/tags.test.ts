import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import { cloudErrorCode } from "@kip/cloud";
import { fromTags, toTags } from "./tags.ts";

const thing = { owner: "me", token: "uid", cell: "cell-1", name: "Kip Node me now" };

describe("toTags()", () => {
  it("has the original's names", () => {
    const all = new Map(toTags({ ...thing, tags: { "kip-nametag": "blue" } }).map(pair));
    assert.equal(all.get("Name"), "Kip Node me now");
    assert.equal(all.get("Node"), "uid");
    assert.equal(all.get("KipControllerID"), "me");
    assert.equal(all.get("KipNametag"), "blue");
  });

  it("keeps any tags of the caller, also those with names of its own and of AWS", () => {
    const keys = fc.oneof(
      fc.string({ minLength: 1, maxLength: 100 }),
      fc.constantFrom("Name", "Node", "KipCell", "aws:x", "AWS:Y", "kip-tag/Name", "__proto"),
    );
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.tuple(keys, fc.string()), { selector: ([key]) => key }),
        (pairs) => {
          const tags = Object.fromEntries(pairs.filter(([key]) => key !== "__proto__"));
          const list = toTags({ ...thing, tags });
          assert.ok(list.every(({ Key = "" }) => !/^aws:/i.test(Key) && Key.length <= 128));
          assert.equal(new Set(list.map(({ Key }) => Key)).size, list.length);
          assert.deepEqual(fromTags(list), { ...thing, tags });
        },
      ),
    );
  });

  it("refuses a key that is reserved and leaves no room for a prefix", () => {
    const tags = { [`aws:${"k".repeat(123)}`]: "" };
    assert.throws(
      () => toTags({ ...thing, tags }),
      (error) => cloudErrorCode(error) === "CLOUD_INVALID_REQUEST",
    );
  });
});

describe("fromTags()", () => {
  it("does not know what another program has made", () => {
    assert.equal(fromTags([{ Key: "Name", Value: "web" }]), undefined);
    assert.equal(fromTags([{ Key: "KipControllerID", Value: "me" }]), undefined);
  });
});

function pair({ Key = "", Value = "" }): [string, string] {
  return [Key, Value];
}
