import assert from "node:assert/strict";
import fs from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { runCommand, isSystemError } from "@kip/base";
import { mountDisk, unmountDisk } from "../src/volumes/disk-volume.ts";

const MiB = 2 ** 20;

/** Really mounts: a loop device stands for the disk. Only as root. */
describe("mountDisk()", { timeout: 120_000 }, () => {
  let folder = "";
  let image = "";
  let loop = "";
  let target = "";
  const places = () => ({ sysBlock: path.join(folder, "block"), dev: path.join(folder, "dev") });

  before(async () => {
    folder = await fs.mkdtemp(path.join(os.tmpdir(), "kip-mount-"));
    image = path.join(folder, "disk.raw");
    target = path.join(folder, "mounted");
    await fs.writeFile(image, "");
    await fs.truncate(image, 32 * MiB);
    loop = (await runCommand("losetup", ["-f", "--show", image])).stdout.trim();
    const { sysBlock, dev } = places();
    for (const each of [path.join(sysBlock, "sda"), dev, target])
      await fs.mkdir(each, { recursive: true });
    await fs.writeFile(path.join(sysBlock, "sda", "serial"), "vol1");
    await fs.symlink(loop, path.join(dev, "sda"));
    await tellSize();
  });
  after(async () => {
    await unmountDisk(target);
    await runCommand("losetup", ["-d", loop]);
    await fs.rm(folder, { recursive: true });
  });

  async function tellSize(): Promise<void> {
    const { size } = await fs.stat(image);
    await fs.writeFile(path.join(folder, "block", "sda", "size"), `${size / 512}\n`);
  }
  const capacity = async (): Promise<number> => {
    const { blocks, bsize } = await fs.statfs(target);
    return blocks * bsize;
  };

  it("makes a file system, keeps what is written, and mounts it once", async () => {
    const volume = { serial: "vol1", readOnly: false };
    await mountDisk(target, volume, places());
    await mountDisk(target, volume, places());
    await fs.writeFile(path.join(target, "kept"), "data");
    await unmountDisk(target);
    await unmountDisk(target);
    await assert.rejects(fs.access(path.join(target, "kept")));
    await mountDisk(target, { serial: "vol1", readOnly: true }, places());
    assert.equal(await fs.readFile(path.join(target, "kept"), "utf8"), "data");
    await assert.rejects(fs.writeFile(path.join(target, "new"), ""), (error) =>
      isSystemError(error, "EROFS"),
    );
    await unmountDisk(target);
  });

  it("opens everything to the pod's group", async () => {
    await mountDisk(target, { serial: "vol1", readOnly: false, group: 1234 }, places());
    for (const [name, bits] of [
      [".", 0o2770],
      ["kept", 0o660],
    ] as const) {
      const { gid, mode } = await fs.stat(path.join(target, name));
      assert.equal(gid, 1234);
      assert.equal(mode & bits, bits, name);
    }
    await unmountDisk(target);
  });

  it("grows the file system of a disk that has grown, mounted or not", async (test) => {
    if (!(await mayResize())) return test.skip("the kernel lets only CAP_SYS_RESOURCE do it");
    const volume = { serial: "vol1", readOnly: false };
    for (const isMounted of [true, false]) {
      await mountDisk(target, volume, places());
      const earlier = await capacity();
      if (!isMounted) await unmountDisk(target);
      await fs.truncate(image, (await fs.stat(image)).size + 32 * MiB);
      await runCommand("losetup", ["-c", loop]);
      await tellSize();
      await mountDisk(target, volume, places());
      assert.ok((await capacity()) > earlier + 24 * MiB);
      assert.equal(await fs.readFile(path.join(target, "kept"), "utf8"), "data");
      await unmountDisk(target);
    }
  });
});

/** Whether this process has CAP_SYS_RESOURCE. In some containers root does not have it. */
async function mayResize(): Promise<boolean> {
  const status = await fs.readFile("/proc/self/status", "utf8");
  const capabilities = BigInt(`0x${/^CapEff:\s*([0-9a-f]+)$/m.exec(status)?.[1] ?? "0"}`);
  return (capabilities & (1n << 24n)) !== 0n;
}
