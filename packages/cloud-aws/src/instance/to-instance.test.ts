import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { describedInstance } from "../testing/fake-ec2.ts";
import { toInstance } from "./to-instance.ts";

/** The IPv6 addresses of an instance, given these in EC2's description. */
function ipv6Of(...ipv6: readonly string[]) {
  return toInstance(describedInstance("i-1", "running", { ipv6 }))?.instance.ipv6;
}

describe("toInstance()", () => {
  it("gives machine and pod the same addresses of IPv6, in whatever order EC2 lists them", () => {
    const [first, second] = ["2001:db8::1f", "2001:db8::a"];
    const expected = { managementIp: first, podIp: second };
    assert.deepEqual(ipv6Of(first, second), expected);
    assert.deepEqual(ipv6Of(second, first), expected);
  });

  it("has no IPv6 for an instance without two such addresses", () => {
    assert.equal(ipv6Of(), undefined);
    assert.equal(ipv6Of("2001:db8::1"), undefined);
  });

  it("takes an instance as running once it has all addresses that were asked for", () => {
    const stateOf = (ipv6?: readonly string[]) =>
      toInstance(describedInstance("i-1", "running", ipv6 && { ipv6 }))?.instance.state;
    assert.equal(stateOf(), "running");
    assert.equal(stateOf([]), "pending");
    assert.equal(stateOf(["2001:db8::1"]), "pending");
    assert.equal(stateOf(["2001:db8::1", "2001:db8::2"]), "running");
  });
});
