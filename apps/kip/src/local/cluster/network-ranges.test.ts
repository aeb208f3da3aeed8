import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { OptionError, parseOptions } from "@kip/base";
import { upOptions } from "./local-options.ts";
import { networkRanges } from "./network-ranges.ts";

const given = (...args: readonly string[]) => parseOptions(upOptions, args, {});
const services = "--service-range=10.96.0.0/16,fd6b:6970:0:1::/112";

describe("networkRanges()", () => {
  it("is IPv4 alone by default, and has a range of IPv6 beside one of Services", () => {
    assert.deepEqual(networkRanges(given()), { range: "198.18.0.0/15", ipv6Range: undefined });
    assert.deepEqual(
      networkRanges(given("--network-range=198.18.0.0/15,fd6b:6970::/64", services)),
      { range: "198.18.0.0/15", ipv6Range: "fd6b:6970::/64" },
    );
  });

  it("refuses ranges that no VPC has, with --cloud=ec2-local", () => {
    const range = (text: string) => given("--cloud=ec2-local", `--network-range=${text}`);
    assert.equal(networkRanges(range("198.18.0.0/16")).range, "198.18.0.0/16");
    assert.throws(() => networkRanges(given("--cloud=ec2-local")), { code: "OPTION_INVALID" });
    const both = [`--network-range=198.18.0.0/16,fd6b:6970::/64`, services];
    assert.throws(() => networkRanges(given("--cloud=ec2-local", ...both)), {
      code: "OPTION_INVALID",
    });
  });

  it("refuses other families, and ranges whose families differ from those of Services", () => {
    for (const args of [
      ["--network-range=fd6b:6970::/64"],
      ["--network-range=fd6b:6970::/64,198.18.0.0/15", services],
      ["--network-range=198.18.0.0/15,10.0.0.0/8", services],
      ["--network-range=198.18.0.0/15,fd6b:6970::/64,fd6b:6971::/64", services],
      ["--network-range=198.18.0.0/15,fd6b:6970::/64"],
      [services],
    ])
      assert.throws(
        () => networkRanges(given(...args)),
        (error) => OptionError.is(error, "OPTION_INVALID"),
        args.join(" "),
      );
  });
});
