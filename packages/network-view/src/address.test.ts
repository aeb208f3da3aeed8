import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { canonicalAddress, contains, outermost, parseCidr } from "./address.ts";
import { endpointText, parseEndpoint } from "./endpoint.ts";

describe("canonicalAddress()", () => {
  it("writes IPv6 as RFC 5952 does", () => {
    assert.equal(canonicalAddress("FD00:0:0::1"), "fd00::1");
    assert.equal(canonicalAddress("::ffff:10.0.0.1"), "::ffff:a00:1");
  });

  it("refuses zones, leading zeros and names", () => {
    for (const text of ["fe80::1%eth0", "010.0.0.1", "10.0.0", "example.com", ""])
      assert.equal(canonicalAddress(text), undefined, text);
  });
});

describe("parseCidr()", () => {
  it("clears the bits behind the prefix", () => {
    assert.equal(parseCidr("10.1.2.3/16")?.text, "10.1.0.0/16");
    assert.equal(parseCidr("fd00:1:2:3::9/48")?.text, "fd00:1:2::/48");
    assert.equal(parseCidr("0.0.0.0/0")?.text, "0.0.0.0/0");
    assert.equal(parseCidr("10.1.2.3")?.text, "10.1.2.3/32");
  });

  it("refuses a prefix that is too long, and text behind it", () => {
    for (const text of ["10.0.0.0/33", "::/129", "10.0.0.0/8/8", "10.0.0.0/", "10.0.0.0/+8"])
      assert.equal(parseCidr(text), undefined, text);
  });
});

describe("outermost()", () => {
  it("leaves out ranges that others hold, whatever their order", () => {
    const ranges = [
      "10.1.0.0/16",
      "10.0.0.0/8",
      "10.1.0.0/16",
      "fd00::/8",
      "11.0.0.0/8",
      "fd00::1",
    ];
    const texts = outermost(ranges.flatMap((text) => parseCidr(text) ?? [])).map((r) => r.text);
    assert.deepEqual(texts, ["10.0.0.0/8", "11.0.0.0/8", "fd00::/8"]);
  });

  it("does not take an IPv4 range as a part of an IPv6 range", () => {
    const [all, four] = [parseCidr("::/0"), parseCidr("10.0.0.0/8")];
    assert.ok(all && four);
    assert.equal(contains(all, four), false);
  });
});

describe("parseEndpoint()", () => {
  it("reads what endpointText() writes", () => {
    assert.deepEqual(parseEndpoint(endpointText("10.0.0.1", 80)), {
      family: 4,
      address: "10.0.0.1",
      port: 80,
    });
    assert.deepEqual(parseEndpoint(endpointText("fd00::1", 65_535)), {
      family: 6,
      address: "fd00::1",
      port: 65_535,
    });
  });

  it("refuses ports out of range and addresses without brackets", () => {
    for (const text of ["10.0.0.1:0", "10.0.0.1:65536", "fd00::1:80", "[10.0.0.1]:80", ":80", "x"])
      assert.equal(parseEndpoint(text), undefined, text);
  });
});
