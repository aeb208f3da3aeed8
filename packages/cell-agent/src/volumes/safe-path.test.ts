import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { pinPath } from "./safe-path.ts";

describe("pinPath()", () => {
  let root = "";
  before(() => {
    root = fs.mkdtempSync(path.join(os.tmpdir(), "kip-pin-"));
    fs.mkdirSync(path.join(root, "volume/..2026"), { recursive: true });
    fs.writeFileSync(path.join(root, "secret"), "secret");
    fs.writeFileSync(path.join(root, "volume/..2026/file"), "content");
    fs.symlinkSync("..2026", path.join(root, "volume/..data"));
    fs.symlinkSync("..data/file", path.join(root, "volume/file"));
    fs.symlinkSync("../secret", path.join(root, "volume/up"));
    fs.symlinkSync("/etc/passwd", path.join(root, "volume/absolute"));
    fs.symlinkSync("loop", path.join(root, "volume/loop"));
    fs.symlinkSync("../..", path.join(root, "volume/..2026/out"));
  });
  after(() => fs.rmSync(root, { recursive: true }));

  const volume = (): string => path.join(root, "volume");

  it("follows links within the volume, as those of a ConfigMap", () => {
    using pinned = pinPath(volume(), "file");
    assert.equal(fs.readFileSync(pinned.path, "utf8"), "content");
    assert.equal(pinned.isDirectory, false);
  });

  it("makes directories that are missing", () => {
    using pinned = pinPath(volume(), "new/deep");
    assert.equal(pinned.isDirectory, true);
    assert.ok(fs.statSync(path.join(volume(), "new/deep")).isDirectory());
  });

  for (const way of [
    "..",
    "../secret",
    "up",
    "absolute",
    "loop",
    "..data/out/secret",
    "file/../../..",
  ])
    it(`refuses "${way}"`, () => {
      assert.throws(() => pinPath(volume(), way), { code: "AGENT_PATH_UNSAFE" });
    });

  it("stays with what it found when a link is put in its place", () => {
    fs.mkdirSync(path.join(volume(), "dir"));
    using pinned = pinPath(volume(), "dir");
    fs.rmdirSync(path.join(volume(), "dir"));
    fs.symlinkSync("/etc", path.join(volume(), "dir"));
    assert.deepEqual(fs.readdirSync(pinned.path), []);
  });

  it("leaves no descriptor open", () => {
    const count = (): number => fs.readdirSync("/proc/self/fd").length;
    const first = count();
    for (const way of ["file", "new/deep", "up", "loop", ".."]) {
      try {
        pinPath(volume(), way)[Symbol.dispose]();
      } catch {
        // Refused, which is what another test is about.
      }
    }
    assert.equal(count(), first);
  });
});
