import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { OptionError, parseOptions } from "@kip/base";
import { upOptions } from "./local-options.ts";
import { dnsService, serviceRange } from "./service-range.ts";

const given = (...args: readonly string[]) => parseOptions(upOptions, args, {});

describe("serviceRange()", () => {
  it("is 10.96.0.0/16 by default, with the name server at its tenth address", () => {
    assert.equal(serviceRange(given()), "10.96.0.0/16");
    assert.equal(dnsService(given()), "10.96.0.10");
    assert.equal(dnsService(given("--service-range=172.30.5.0/24")), "172.30.5.10");
  });

  it("refuses what is not an IPv4 network, too small or too large", () => {
    for (const range of ["10.96.0.0", "10.96.0.128/25", "10.0.0.0/8", "300.1.1.0/24", "fd00::/112"])
      assert.throws(
        () => serviceRange(given(`--service-range=${range}`)),
        (error) => OptionError.is(error, "OPTION_INVALID"),
        range,
      );
  });
});
