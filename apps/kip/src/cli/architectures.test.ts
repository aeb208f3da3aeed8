import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hostArchitecture, parseOptions } from "@kip/base";
import { upOptions } from "../local/cluster/local-options.ts";
import { architectures } from "./architectures.ts";

const other = hostArchitecture === "arm64" ? "amd64" : "arm64";

describe("architectures()", () => {
  const read = (...args: readonly string[]) => architectures(parseOptions(upOptions, args, {}));

  it("has that of this computer first, and each once", () => {
    assert.deepEqual(read(), [hostArchitecture]);
    const both = [`--architecture=${other}`, `--architecture=${hostArchitecture}`];
    assert.deepEqual(read(...both, `--architecture=${other}`), [hostArchitecture, other]);
  });

  it("refuses others", () => {
    assert.throws(() => read("--architecture=x86_64"), { code: "OPTION_INVALID" });
  });

  it("refuses another than this computer's with EC2 on this computer, which has one image", () => {
    const ec2 = "--cloud=ec2-local";
    assert.deepEqual(read(ec2, `--architecture=${hostArchitecture}`), [hostArchitecture]);
    assert.throws(() => read(ec2, `--architecture=${other}`), {
      code: "OPTION_INVALID",
      message: new RegExp(`${other}.*ec2-local`),
    });
  });
});
