import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { runCommand } from "@kip/base";
import { cpioArchive } from "./cpio.ts";

describe("cpioArchive()", () => {
  it("is read by cpio, folders before their files", async (t) => {
    const archive = cpioArchive([
      { path: "a/b/file", content: Buffer.from("text"), isExecutable: true },
      { path: "empty" },
    ]);
    assert.equal(archive.length % 512, 0);
    try {
      const { stdout } = await runCommand("cpio", ["-itv", "--quiet"], { input: archive });
      const lines = stdout.trim().split("\n");
      const names = lines.map((line) => line.split(/\s+/).at(-1));
      assert.deepEqual(names, ["a", "a/b", "a/b/file", "empty"]);
      assert.match(lines[2] ?? "", /^-rwxr-xr-x.* root +root +4 /);
    } catch (error) {
      if (error instanceof Error && error.message.includes("ENOENT"))
        t.skip("cpio is not installed");
      else throw error;
    }
  });

  it("gives the same bytes for the same entries", () => {
    const entries = [{ path: "x", content: Buffer.from("1") }];
    assert.deepEqual(cpioArchive(entries), cpioArchive(entries));
  });
});
