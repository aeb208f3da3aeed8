import assert from "node:assert/strict";
import fs from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, it } from "node:test";
import { removeTree } from "./remove-tree.ts";
import { runCommand } from "./run-command.ts";

const isRoot = process.getuid?.() === 0;

describe("removeTree()", () => {
  let folder = "";
  let tree = "";
  beforeEach(() => {
    folder = fs.mkdtempSync(path.join(tmpdir(), "kip-remove-"));
    tree = path.join(folder, "tree");
    fs.mkdirSync(path.join(tree, "sub"), { recursive: true });
    fs.writeFileSync(path.join(tree, "sub/file"), "");
    fs.writeFileSync(path.join(folder, "other"), "");
  });
  afterEach(async () => {
    await runCommand("rm", ["-rf", folder]);
  });

  it("removes a directory with its content, and is done where there is none", async () => {
    await removeTree(tree);
    await removeTree(tree);
    assert.deepEqual(fs.readdirSync(folder), ["other"]);
  });

  it("removes links and not what they point to", async () => {
    fs.symlinkSync("../other", path.join(tree, "file"));
    fs.symlinkSync("..", path.join(tree, "folder"));
    await removeTree(tree);
    assert.deepEqual(fs.readdirSync(folder), ["other"]);
  });

  it("removes names that are not valid UTF-8", async () => {
    fs.writeFileSync(Buffer.concat([Buffer.from(`${tree}/`), Buffer.of(0xff, 0xfe)]), "");
    await removeTree(tree);
    assert.deepEqual(fs.readdirSync(folder), ["other"]);
  });

  it("removes a tree that is deeper than any path is long", async () => {
    const digs = `chdir $ARGV[0]; for (1 .. 100) { mkdir "x" x 100 or die; chdir "x" x 100 or die }`;
    await runCommand("perl", ["-e", digs, tree]);
    await removeTree(tree);
    assert.deepEqual(fs.readdirSync(folder), ["other"]);
  });

  it("removes more entries than it would look at", async () => {
    for (let count = 0; count < 3000; count++) fs.writeFileSync(path.join(tree, String(count)), "");
    await removeTree(tree);
    assert.deepEqual(fs.readdirSync(folder), ["other"]);
  });

  it("keeps what is mounted below", { skip: !isRoot && "needs root" }, async () => {
    const mounted = path.join(tree, "sub");
    await runCommand("mount", ["-t", "tmpfs", "tmpfs", mounted]);
    try {
      fs.writeFileSync(path.join(mounted, "data"), "");
      await assert.rejects(removeTree(tree), { code: "COMMAND_FAILED" });
      assert.deepEqual(fs.readdirSync(mounted), ["data"]);
    } finally {
      await runCommand("umount", [mounted]);
    }
  });
});
