import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseOptions, OptionError } from "@kip/base";
import { hostPorts } from "./host-ports.ts";
import { upOptions } from "./local-options.ts";

describe("hostPorts()", () => {
  const ports = (...args: readonly string[]) => hostPorts(parseOptions(upOptions, args, {}));

  it("has the ports of the cluster and those of --host-port", () => {
    assert.deepEqual(ports("--host-port=80", "--port=7443"), [7443, 5000, 10_250, 80]);
  });

  for (const flag of ["--host-port=x", "--host-port=0", "--host-port=65536", "--port=99999"])
    it(`refuses ${flag}`, () =>
      assert.throws(
        () => ports(flag),
        (error) => OptionError.is(error, "OPTION_INVALID"),
      ));
});
