import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { runCommand } from "@kip/base";
import { temporaryFolder } from "@kip/testing";
import { systemDiskMeter } from "./disk-meter.ts";

const options = { limitSeconds: 60, signal: new AbortController().signal };
const MiB = 2 ** 20;

describe("systemDiskMeter", { timeout: 120_000 }, () => {
  it("counts what folders take on the disk, each for itself, as du does", async () => {
    using folder = temporaryFolder();
    const [a, b] = [path.join(folder.path, "a"), path.join(folder.path, "b b")];
    fs.mkdirSync(path.join(a, "deep/er"), { recursive: true });
    fs.mkdirSync(b);
    fs.writeFileSync(path.join(a, "deep/er/one"), Buffer.alloc(3 * MiB, "x"));
    // A hole takes no space, and a file with several names counts once.
    fs.truncateSync(path.join(a, "deep/er/one"), 100 * MiB);
    for (let index = 0; index < 50; index++)
      fs.linkSync(path.join(a, "deep/er/one"), path.join(a, `again${index}`));
    fs.writeFileSync(path.join(b, "two\nlines"), Buffer.alloc(MiB, "x"));
    fs.symlinkSync(a, path.join(b, "link"));
    const absent = path.join(folder.path, "absent");
    const found = await systemDiskMeter.usage([a, b, absent], options);
    const { stdout } = await runCommand("du", ["-s", "--block-size=1", a, b]);
    const expected = stdout
      .trimEnd()
      .split("\n")
      .map((line) => line.split("\t"));
    assert.equal(found.size, 2);
    for (const [bytes, one = ""] of expected) assert.equal(found.get(one)?.bytes, Number(bytes));
    // The folder, two below it and a file; a folder, a file and a link.
    assert.deepEqual([found.get(a)?.inodes, found.get(b)?.inodes], [4, 3]);
  });

  it("goes down to any depth, where a path is longer than the kernel takes", async () => {
    using folder = temporaryFolder();
    const script =
      "chdir shift; $name = 'd' x 200; for (1 .. 60) { mkdir $name; chdir $name or die } " +
      "open F, '>end'; print F 'x' x (2 << 20)";
    await runCommand("perl", ["-e", script, folder.path]);
    const found = await systemDiskMeter.usage([folder.path], options);
    assert.ok((found.get(folder.path)?.bytes ?? 0) >= 2 * MiB);
    await runCommand("rm", ["-rf", folder.path]);
  });

  it("returns the free space of a file system", async () => {
    const { sizeBytes, freeBytes, inodes, freeInodes } = await systemDiskMeter.room("/");
    assert.ok(sizeBytes >= freeBytes && freeBytes > 0 && inodes >= freeInodes);
  });
});
