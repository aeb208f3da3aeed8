import assert from "node:assert/strict";
import { tmpdir } from "node:os";
import { after, before, describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import { readConfigText } from "../config/read-provider-config.ts";
import { openDriver } from "./driver.ts";

const skip = process.getuid?.() === 0 ? false : "the local cloud is opened by root only";

describe("openDriver() of the local cloud", { skip }, () => {
  const searchPath = process.env["PATH"];
  before(() => (process.env["PATH"] = "/nonexistent"));
  after(() => (process.env["PATH"] = searchPath));

  /** The error's message if no program is installed. */
  async function missing(launches: boolean): Promise<string> {
    const { config } = readConfigText(
      `cloud: {local: {stateDir: ${tmpdir()}/kip-none, architectures: [amd64, arm64]}}`,
    );
    assert.ok(config);
    const options = { controllerID: "tests", term: undefined, logger: silentLogger, launches };
    const [opened] = await Promise.allSettled([openDriver(config, options)]);
    assert.ok(opened.status === "rejected" && opened.reason instanceof Error);
    return opened.reason.message;
  }

  it("needs programs for other processors only to launch their machines", async () => {
    const own = process.arch === "arm64" ? /qemu-system-aarch64/ : /qemu-system-x86_64/;
    const other = process.arch === "arm64" ? /qemu-system-x86_64/ : /qemu-system-aarch64/;
    assert.match(await missing(true), other);
    assert.match(await missing(false), own);
    assert.doesNotMatch(await missing(false), other);
  });
});
