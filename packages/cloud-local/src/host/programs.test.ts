import assert from "node:assert/strict";
import { symlinkSync, unlinkSync } from "node:fs";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { CloudError } from "@kip/cloud";
import { temporaryFolder } from "@kip/testing";
import { requirePrograms } from "./programs.ts";

/** The programs on a computer that only runs amd64 machines. */
const installed =
  "sh ip nft sysctl unshare nsenter setpriv umount flock qemu-img genisoimage socat qemu-system-x86_64";

describe("requirePrograms()", () => {
  const searchPath = process.env["PATH"];
  const folder = temporaryFolder();
  before(() => {
    for (const name of installed.split(" ")) symlinkSync("/bin/sh", path.join(folder.path, name));
    process.env["PATH"] = folder.path;
  });
  after(() => {
    process.env["PATH"] = searchPath;
    folder[Symbol.dispose]();
  });

  it("asks for no program that runs machines of other processors than those on offer", async () => {
    await requirePrograms(["qemu-system-x86_64"]);
  });

  it("names the packages of those that are missing", async () => {
    // Without it, the host's clients of UDP would keep endpoints that are gone.
    unlinkSync(path.join(folder.path, "socat"));
    await assert.rejects(
      requirePrograms(["qemu-system-x86_64", "qemu-system-aarch64"]),
      (error: unknown) => {
        assert.ok(CloudError.is(error, "CLOUD_INVALID_REQUEST"));
        assert.match(error.message, /: qemu-system-aarch64, socat not found/);
        return error.remedy === "Run: apt-get install qemu-system-arm socat";
      },
    );
  });
});
