import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { spdyDictionary, spdyDictionaryId } from "./dictionary.ts";

describe("spdyDictionary", () => {
  it("has the length and the checksum of the protocol's", () => {
    let [low, high] = [1, 0];
    for (const byte of spdyDictionary) {
      low = (low + byte) % 65_521;
      high = (high + low) % 65_521;
    }
    assert.equal(spdyDictionary.length, 1423);
    assert.equal(high * 65_536 + low, spdyDictionaryId);
  });
});
