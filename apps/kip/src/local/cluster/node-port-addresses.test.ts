import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { OptionError, parseOptions } from "@kip/base";
import { upOptions } from "./local-options.ts";
import { nodePortAddresses } from "./node-port-addresses.ts";

const given = (...texts: readonly string[]) =>
  nodePortAddresses(
    parseOptions(
      upOptions,
      texts.map((text) => `--nodeport-address=${text}`),
      {},
    ),
  );

describe("nodePortAddresses()", () => {
  it("are those of this computer's own programs, unless others are given", () => {
    assert.deepEqual(given(), ["127.0.0.1"]);
    assert.deepEqual(given("127.0.0.1", "192.0.2.1"), ["127.0.0.1", "192.0.2.1"]);
  });

  it("are IPv4 addresses", () => {
    for (const text of ["all", "::", "192.0.2.0/24"])
      assert.throws(
        () => given(text),
        (error) => OptionError.is(error, "OPTION_INVALID"),
        text,
      );
  });
});
