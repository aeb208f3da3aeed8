import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { firstServiceAddress } from "./resolve-options.ts";

describe("firstServiceAddress()", () => {
  it("is the address after the range's own", () => {
    assert.equal(firstServiceAddress("10.96.0.0/16"), "10.96.0.1");
    assert.equal(firstServiceAddress("172.20.4.128/25"), "172.20.4.129");
    assert.equal(firstServiceAddress("10.96.0.0/16,fd6b::/112"), "10.96.0.1");
  });

  it("rejects what is no IPv4 range", () => {
    for (const cidr of ["", "10.96.0.0", "fd00::/108"])
      assert.throws(() => firstServiceAddress(cidr), RangeError);
  });
});
