import assert from "node:assert/strict";
import { it } from "node:test";
import { writtenAddress, writtenCidr } from "./written-address.ts";

it("writtenAddress() and writtenCidr() read what the API server takes as kube-proxy does", () => {
  const addresses = {
    "10.1.0.2": "10.1.0.2",
    "010.001.00.02": "10.1.0.2",
    "::ffff:10.1.0.2": "10.1.0.2",
    "0:0::FFFF:a01:2": "10.1.0.2",
    "::ffff:255.0.254.1": "255.0.254.1",
    "::ffff:1": "::ffff:1",
    "::ffff:1:2:3": "::ffff:1:2:3",
    "FD00::0:1": "fd00::1",
    "010.256.0.1": undefined,
    "::ffff:010.1.0.2": "10.1.0.2",
    "00fd::0010": "fd::10",
  };
  for (const [text, expected] of Object.entries(addresses))
    assert.equal(writtenAddress(text), expected, text);
  const ranges = {
    "010.1.2.3/08": "10.0.0.0/8",
    "::ffff:10.1.2.3/104": "10.0.0.0/8",
    "::ffff:10.1.2.3/96": "0.0.0.0/0",
    "::ffff:10.1.2.3/95": "::fffe:0:0/95",
    "fd00::1/64": "fd00::/64",
    "10.0.0.0/33": undefined,
  };
  for (const [text, expected] of Object.entries(ranges))
    assert.equal(writtenCidr(text)?.text, expected, text);
});
