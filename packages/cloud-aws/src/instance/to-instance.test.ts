import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { describedInstance } from "../testing/fake-ec2.ts";
import { toInstance } from "./to-instance.ts";

/** The addresses of IPv6 of an instance that EC2 describes with these. */
function ipv6Of(...addresses: readonly string[]) {
  const described = describedInstance("i-1", "running");
  const [nic] = described.NetworkInterfaces ?? [];
  const Ipv6Addresses = addresses.map((Ipv6Address) => ({ Ipv6Address }));
  const seen = toInstance({ ...described, NetworkInterfaces: [{ ...nic, Ipv6Addresses }] });
  assert.equal(seen?.instance.state, "running");
  return seen.instance.ipv6;
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
});
