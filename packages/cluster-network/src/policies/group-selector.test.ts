import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { groupName } from "./group-selector.ts";

describe("groupName()", () => {
  it("is the same for equal selectors in any order of keys, and differs for other selectors", () => {
    const first = groupName({ namespace: "a", podSelector: { matchLabels: { x: "1", y: "2" } } });
    const same = groupName({ podSelector: { matchLabels: { y: "2", x: "1" } }, namespace: "a" });
    const other = groupName({ namespace: "b", podSelector: { matchLabels: { x: "1", y: "2" } } });
    assert.equal(first, same);
    assert.notEqual(first, other);
  });

  it("has 128 bits, so that users cannot find two selectors with the same name", () => {
    assert.match(groupName({ namespace: "a", podSelector: {} }), /^[0-9a-f]{32}$/);
  });
});
