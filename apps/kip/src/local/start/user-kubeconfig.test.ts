import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { userInfo } from "node:os";
import path from "node:path";
import { afterEach, describe, it } from "node:test";
import { parseOptions } from "@kip/base";
import { temporaryFolder } from "@kip/testing";
import { commonOptions } from "../cluster/local-options.ts";
import { userKubeconfig } from "./user-kubeconfig.ts";

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

  it("is in the home directory of the user who called sudo, whatever directory service has it", () => {
    using folder = temporaryFolder();
    // Answers like getent(1) for a user who is not in /etc/passwd.
    const answer =
      'case "$2" in ann) echo "ann:*:5:5::/net/homes/ann:/bin/sh" ;; *) exit 2 ;; esac';
    writeFileSync(path.join(folder.path, "getent"), `#!/bin/sh\n${answer}\n`, { mode: 0o755 });
    Object.assign(process.env, { PATH: `${folder.path}:${process.env["PATH"]}`, HOME: "/root" });
    delete process.env["KUBECONFIG"];
    const file = (): string => userKubeconfig(parseOptions(commonOptions, [], {}));
    process.env["SUDO_USER"] = "ann";
    assert.equal(file(), "/net/homes/ann/.kube/config");
    process.env["SUDO_USER"] = "unknown-user";
    assert.equal(file(), "/root/.kube/config");
  });
});
