import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { OptionError, parseOptions } from "@kip/base";
import { upOptions } from "./local-options.ts";
import { dnsService, serviceRanges } from "./service-range.ts";

const given = (...args: readonly string[]) => parseOptions(upOptions, args, {});

describe("serviceRanges()", () => {
  it("is 10.96.0.0/16 by default, with the name server at its tenth address", () => {
    assert.deepEqual(serviceRanges(given()), ["10.96.0.0/16"]);
    assert.equal(dnsService(given()), "10.96.0.10");
    assert.equal(dnsService(given("--service-range=172.30.5.0/24")), "172.30.5.10");
  });

  it("takes one of each family, IPv4 first", () => {
    const both = given("--service-range=10.96.0.0/16,fd6b:6970:0:1::/112");
    assert.deepEqual(serviceRanges(both), ["10.96.0.0/16", "fd6b:6970:0:1::/112"]);
    assert.equal(dnsService(both), "10.96.0.10");
  });

  it("refuses what is not a network of the family, too small or too large", () => {
    for (const range of [
      "10.96.0.0",
      "10.96.0.128/25",
      "10.0.0.0/8",
      "300.1.1.0/24",
      "fd6b::/112",
      "10.96.0.0/16,10.97.0.0/16",
      "10.96.0.0/16,fd6b::/64",
      "10.96.0.0/16,fd6b::",
      "10.96.0.0/16,fd6b::/112,fd6c::/112",
    ])
      assert.throws(
        () => serviceRanges(given(`--service-range=${range}`)),
        (error) => OptionError.is(error, "OPTION_INVALID"),
        range,
      );
  });
});
