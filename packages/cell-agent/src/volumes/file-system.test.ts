import assert from "node:assert/strict";
import fs from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { AgentError } from "@kip/agent-api";
import { runCommand } from "@kip/base";
import { canGrow, prepareFileSystem } from "./file-system.ts";
import type { Disk } from "./find-disk.ts";

const MiB = 2 ** 20;
const mark = "kip: the file system of this disk is being made\n";
const tail = 64 * 1024;
const isRefused = (error: unknown): boolean => AgentError.is(error, "AGENT_DISK_REFUSED");

/** Programs that create and check file systems work on files like on disks. */
describe("prepareFileSystem()", { timeout: 120_000 }, () => {
  let folder = "";
  let count = 0;
  before(async () => {
    folder = await fs.mkdtemp(path.join(os.tmpdir(), "kip-disk-"));
  });
  after(async () => {
    await fs.rm(folder, { recursive: true });
  });

  async function newDisk(sizeBytes = 16 * MiB): Promise<Disk> {
    const file = path.join(folder, `disk${count++}`);
    await fs.writeFile(file, "");
    await fs.truncate(file, sizeBytes);
    return { file, sizeBytes };
  }
  async function put(disk: Disk, text: string, position: number): Promise<void> {
    await using handle = await fs.open(disk.file, "r+");
    await handle.write(text, position);
  }
  async function uuid(disk: Disk): Promise<string> {
    const { stdout } = await runCommand("blkid", ["-p", "-o", "value", "-s", "UUID", disk.file]);
    return stdout.trim();
  }
  const make = async (disk: Disk): Promise<void> => {
    await prepareFileSystem(disk, { readOnly: false });
  };

  it("makes a file system on an empty disk, once, and keeps it whatever comes", async () => {
    const disk = await newDisk();
    await make(disk);
    const first = await uuid(disk);
    assert.match(first, /^[0-9a-f-]{36}$/);
    assert.equal(await canGrow(disk), false);
    await make(disk);
    await prepareFileSystem(disk, { readOnly: true });
    await put(disk, "x".repeat(512), 0); // a boot sector does not count as content
    await make(disk);
    assert.equal(await uuid(disk), first);
    await runCommand("e2fsck", ["-f", "-n", disk.file]);
  });

  it("sees that the disk has grown", async () => {
    const disk = await newDisk();
    await make(disk);
    await fs.truncate(disk.file, 32 * MiB);
    assert.equal(await canGrow({ ...disk, sizeBytes: 32 * MiB }), true);
  });

  it("makes nothing on an empty disk that is to be read only", async () => {
    const disk = await newDisk();
    await assert.rejects(prepareFileSystem(disk, { readOnly: true }), isRefused);
    assert.ok((await fs.readFile(disk.file)).every((byte) => byte === 0));
  });

  it("makes a file system again that it had begun to make", async () => {
    for (const state of ["marked", "half made", "made"]) {
      const disk = await newDisk();
      if (state === "made") await make(disk);
      await put(disk, mark, disk.sizeBytes - tail);
      if (state === "half made") await put(disk, "tables of inodes", 100_000);
      const before = state === "made" ? await uuid(disk) : "";
      await make(disk);
      assert.notEqual(await uuid(disk), before, state);
      const content = await fs.readFile(disk.file);
      assert.ok(!content.includes(mark), state);
    }
  });

  it("never takes what a pod has written for its own mark", async () => {
    const disk = await newDisk();
    await runCommand("mkfs.ext4", ["-q", "-F", disk.file]);
    const before = await uuid(disk);
    await put(disk, mark, disk.sizeBytes - tail);
    await make(disk);
    assert.equal(await uuid(disk), before);
  });

  const foreign: readonly (readonly [string, (disk: Disk) => Promise<unknown>])[] = [
    ["some data at its start", (disk) => put(disk, "precious", 0)],
    ["some data in its first MiB", (disk) => put(disk, "precious", MiB - 8)],
    ["some data at its end", (disk) => put(disk, "precious", disk.sizeBytes - 100)],
    ["another file system", (disk) => runCommand("mkfs.ext2", ["-q", "-F", disk.file])],
    ["swap space", (disk) => runCommand("mkswap", [disk.file])],
    ["a partition table", (disk) => put(disk, "\u0055\u00aa", 510).then(() => gpt(disk))],
  ];
  for (const [what, fill] of foreign)
    it(`refuses a disk with ${what}, and leaves it as it is`, async () => {
      const disk = await newDisk();
      await fill(disk);
      const before = await fs.readFile(disk.file);
      await assert.rejects(make(disk), isRefused);
      assert.ok(before.equals(await fs.readFile(disk.file)));
    });

  it("repairs what a crash has left, and says when it cannot", async () => {
    const disk = await newDisk();
    await make(disk);
    const debug = async (command: string): Promise<void> => {
      await runCommand("debugfs", ["-w", "-R", command, disk.file]);
    };
    await debug("set_super_value state 0"); // as if it was not unmounted
    await make(disk);
    const { stdout } = await runCommand("dumpe2fs", ["-h", disk.file]);
    assert.match(stdout, /Filesystem state: +clean/);
    await debug("clri <2>"); // without a root folder: only a person can decide what to do
    await debug("set_super_value state 2");
    await assert.rejects(make(disk), (error) => AgentError.is(error, "AGENT_DISK_DAMAGED"));
  });

  async function gpt(disk: Disk): Promise<void> {
    await put(disk, "EFI PART", 512);
  }
});
