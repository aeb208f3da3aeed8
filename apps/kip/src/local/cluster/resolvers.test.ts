import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { OptionError, parseOptions } from "@kip/base";
import { upOptions } from "./local-options.ts";
import { resolvers } from "./resolvers.ts";

const given = (...texts: readonly string[]) =>
  resolvers(
    parseOptions(
      upOptions,
      texts.map((text) => `--resolver=${text}`),
      {},
    ),
  );

describe("resolvers()", () => {
  it("are addresses, with a port or without", () => {
    assert.deepEqual(given(), []);
    assert.deepEqual(given("192.0.2.1", "192.0.2.2:5353"), ["192.0.2.1", "192.0.2.2:5353"]);
  });

  it("are nothing else: the text goes into a configuration", () => {
    for (const text of ["dns.example", "192.0.2.1:0", "192.0.2.1:1:2", "192.0.2.1 {", "::1"])
      assert.throws(
        () => given(text),
        (error) => OptionError.is(error, "OPTION_INVALID"),
        text,
      );
  });
});
