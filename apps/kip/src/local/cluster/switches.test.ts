import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { OptionError, parseOptions } from "@kip/base";
import { upOptions } from "./local-options.ts";
import { switches } from "./switches.ts";

const given = (...flags: readonly string[]) =>
  switches(parseOptions(upOptions, flags, {}), "feature-gates");

describe("switches()", () => {
  it("reads names with their values", () => {
    assert.deepEqual(given(), {});
    assert.deepEqual(given("--feature-gates=EnvFiles=true,HostnameOverride=false"), {
      EnvFiles: true,
      HostnameOverride: false,
    });
    const versions = parseOptions(upOptions, ["--runtime-config=node.k8s.io/v1alpha1=true"], {});
    assert.deepEqual(switches(versions, "runtime-config"), { "node.k8s.io/v1alpha1": true });
  });

  it("refuses what is not a pair", () => {
    for (const text of ["EnvFiles", "EnvFiles=yes", "=true", "A=true,", "A=true=false", "A B=true"])
      assert.throws(
        () => given(`--feature-gates=${text}`),
        (error) => OptionError.is(error, "OPTION_INVALID"),
        text,
      );
  });
});
