import assert from "node:assert/strict";
import { userInfo } from "node:os";
import { afterEach, describe, it } from "node:test";
import { parseOptions } from "@kip/base";
import { commonOptions } from "./local-options.ts";
import { userKubeconfig } from "./up.ts";

describe("userKubeconfig()", () => {
  const before = { ...process.env };
  afterEach(() => {
    process.env = { ...before };
  });

  for (const home of [undefined, "", "relative"]) {
    it(`is in the home directory of the user when HOME is ${home ?? "not set"}`, () => {
      for (const name of ["HOME", "KUBECONFIG", "SUDO_USER"]) delete process.env[name];
      if (home !== undefined) process.env["HOME"] = home;
      const file = userKubeconfig(parseOptions(commonOptions, [], {}));
      assert.equal(file, `${userInfo().homedir}/.kube/config`);
    });
  }
});
