import assert from "node:assert/strict";
import fs from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { prepareFileSystem } from "./file-system.ts";
import type { Disk } from "./find-disk.ts";
import {
  deviceNumbers,
  growRootFileSystem,
  type RootDiskPlaces,
  type RootDiskPrograms,
} from "./root-disk.ts";

const MiB = 2 ** 20;

describe("growRootFileSystem()", { timeout: 60_000 }, () => {
  let folder = "";
  let places: RootDiskPlaces;
  const file = (): string => path.join(folder, "vda");
  const grown: Disk[] = [];
  const partitions: string[] = [];
  const programs: RootDiskPrograms = {
    grow: async (disk) => void grown.push(disk),
    growPartition: async (name) => {
      partitions.push(name);
      await setSize(64 * MiB);
    },
  };
  before(async () => {
    folder = await fs.mkdtemp(path.join(os.tmpdir(), "kip-root-"));
    places = {
      root: folder,
      bootDone: path.join(folder, "boot-done"),
      sysDevBlock: folder,
      dev: folder,
    };
    await fs.writeFile(file(), "");
    await fs.truncate(file(), 16 * MiB);
    await prepareFileSystem({ file: file(), sizeBytes: 16 * MiB }, { readOnly: false });
    const { dev } = await fs.stat(folder);
    await fs.mkdir(path.join(folder, "sys", "vda"), { recursive: true });
    await fs.symlink("sys/vda", path.join(folder, deviceNumbers(dev)));
    await setSize(64 * MiB);
  });
  after(async () => {
    await fs.rm(folder, { recursive: true });
  });

  async function setSize(bytes: number): Promise<void> {
    await fs.truncate(file(), bytes);
    await fs.writeFile(path.join(folder, "sys", "vda", "size"), `${bytes / 512}\n`);
  }

  it("leaves a computer alone that has not booted as a cell", async () => {
    await growRootFileSystem(places, programs);
    assert.deepEqual(grown, []);
  });

  it("grows the file system once its disk is larger, and only then", async () => {
    await fs.writeFile(places.bootDone, "");
    await growRootFileSystem(places, programs);
    assert.deepEqual(grown.splice(0), [{ file: file(), sizeBytes: 64 * MiB }]);
    await setSize(16 * MiB);
    await growRootFileSystem(places, programs);
    assert.deepEqual(grown, []);
    assert.deepEqual(partitions, [], "a whole disk has none");
  });

  it("grows its partition first, if it is in one", async () => {
    await fs.writeFile(path.join(folder, "sys", "vda", "partition"), "3\n");
    await growRootFileSystem(places, programs);
    assert.deepEqual(partitions, ["vda"]);
    assert.deepEqual(grown, [{ file: file(), sizeBytes: 64 * MiB }]);
  });
});

describe("deviceNumbers()", () => {
  it("writes them as the kernel does", () => {
    assert.deepEqual([deviceNumbers(0xfd00), deviceNumbers(0x100801)], ["253:0", "8:257"]);
  });
});
