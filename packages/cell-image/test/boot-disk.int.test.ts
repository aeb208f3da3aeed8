// The content of a bootable disk. boot-disk-boots.int.test.ts tests whether machines boot it.
import assert from "node:assert/strict";
import { open, readFile, stat, truncate } from "node:fs/promises";
import path from "node:path";
import { before, describe, it } from "node:test";
import { runCommand } from "@kip/base";
import { temporaryFolder } from "@kip/testing";
import { buildBootDisk, buildCellImage, buildPackageTree, type CellImage } from "../src/index.ts";
import { diskLayout } from "../src/disk/disk-layout.ts";

const cacheDir = process.env["KIP_CACHE_DIR"] ?? "/var/cache/kip";
const sector = 512;
const skip = process.getuid?.() === 0 ? false : "the image is built by root only";

describe("disk that boots", { skip, timeout: 280_000 }, () => {
  let image: CellImage;
  let file = "";
  let tree = "";
  const folder = temporaryFolder();

  before(async () => {
    const agentEntry = path.join(import.meta.dirname, "probe-agent.ts");
    const onProgress = (message: string): void => console.log(message);
    image = await buildCellImage({ cacheDir, agentEntry, onProgress });
    ({ file } = await buildBootDisk({ cacheDir, image, onProgress }));
    const packages = ["dosfstools", "fdisk", "grub-common", "mtools"];
    const loaders = ["grub-efi-amd64-bin", "grub-pc-bin"];
    tree = await buildPackageTree({ cacheDir, packages: [...packages, ...loaders] });
  });

  /** Runs one of Debian's programs on copies of parts of the disk, in `/tmp`. */
  const inTree = async (...command: readonly string[]): Promise<string> => {
    const script = 'mount --bind "$1" "$2/tmp"; tree=$2; shift 2; exec chroot "$tree" "$@"';
    const args = ["--mount", "sh", "-euc", script, "sh", folder.path, tree, ...command];
    return (await runCommand("unshare", args)).stdout;
  };
  const copyPart = async (name: string, start: number, sectors: number): Promise<string> => {
    const to = path.join(folder.path, name);
    const where = [`if=${file}`, `of=${to}`, `skip=${start}`, `count=${sectors}`, "bs=512"];
    await runCommand("dd", [...where, "conv=sparse", "status=none"]);
    return to;
  };
  const copyDisk = async (name: string): Promise<string> => {
    const to = path.join(folder.path, name);
    await runCommand("cp", ["--sparse=always", file, to]);
    return to;
  };

  it("is found again, and is sparse and of whole GiB", async () => {
    const messages: string[] = [];
    const again = await buildBootDisk({
      cacheDir,
      image,
      onProgress: (message) => messages.push(message),
    });
    assert.deepEqual([again.file, messages], [file, []]);
    const { size, blocks } = await stat(file);
    assert.equal(size % 2 ** 30, 0);
    assert.ok(blocks * 512 < size / 2, `${blocks * 512} bytes`);
  });

  it("has a table without faults, whose last partition is the root", async () => {
    await copyDisk("table.img");
    assert.match(await inTree("sfdisk", "--verify", "/tmp/table.img"), /No errors detected/);
    const table = await inTree("sfdisk", "--dump", "/tmp/table.img");
    const names = [...table.matchAll(/name="(.*)"/g)].map(([, name]) => name);
    assert.deepEqual(names, ["kip-loader", "kip-boot", "kip-root"]);
  });

  it("has the image's kernel and initial file system where the loader for UEFI is", async () => {
    const { boot } = diskLayout(image.rootDiskBytes);
    await copyPart("fat.img", boot.start, boot.sectors);
    await inTree("fsck.vfat", "-n", "/tmp/fat.img");
    for (const name of ["vmlinuz", "initrd", "EFI/BOOT/BOOTX64.EFI"])
      await inTree("mcopy", "-o", "-i", "/tmp/fat.img", `::${name}`, "/tmp/");
    const read = async (name: string) => await readFile(path.join(folder.path, name));
    assert.ok((await read("vmlinuz")).equals(await readFile(image.kernel)));
    const [initrd, part] = [await read("initrd"), await readFile(image.initrd)];
    assert.ok(initrd.subarray(0, part.length).equals(part));
    const { stdout } = await runCommand("sh", [
      "-c",
      'tail -c "+$1" "$2" | cpio --quiet -t',
      "sh",
      String(part.length + 1),
      path.join(folder.path, "initrd"),
    ]);
    for (const name of ["early-modules", "ena.ko", "xen-blkfront.ko", "xen-netfront.ko"])
      assert.match(stdout, new RegExp(`(^|/)${name}$`, "m"));
    const efi = await read("BOOTX64.EFI");
    assert.equal(efi.toString("latin1", 0, 2), "MZ");
    assert.ok(efi.includes("linux /vmlinuz console=ttyS0 quiet"), "the loader's configuration");
    assert.ok(efi.includes("root=PARTLABEL=kip-root\ninitrd /initrd\nboot\n"));
    assert.ok(!efi.includes("root=/dev/vda"));
  });

  it("has the root file system of the image, whole", async () => {
    const { root } = diskLayout(image.rootDiskBytes);
    const copy = await copyPart("root.img", root.start, image.rootDiskBytes / sector);
    await runCommand("cmp", [copy, image.rootDisk]);
    await runCommand("e2fsck", ["-fn", copy]);
  });

  it("has a loader for a BIOS that finds its second part", async () => {
    await using disk = await open(file, "r");
    const first = Buffer.alloc(sector);
    await disk.read(first, 0, sector, 0);
    assert.equal(first.readUInt16LE(510), 0xaa55);
    assert.equal(first[0x1be + 4], 0xee, "the table's own entry is kept");
    const at = Number(first.readBigUInt64LE(0x5c));
    assert.equal(at, diskLayout(image.rootDiskBytes).loader.start);
    const second = Buffer.alloc(sector);
    await disk.read(second, 0, sector, at * sector);
    assert.equal(Number(second.readBigUInt64LE(0x1f4)), at + 1);
    const count = second.readUInt16LE(0x1fc);
    assert.ok(count > 20 && count < 2048, String(count));
    const all = Buffer.alloc((count + 1) * sector);
    await disk.read(all, 0, all.length, at * sector);
    assert.ok(!all.subarray(sector).equals(Buffer.alloc(count * sector)));
  });

  it("grows its last partition to a larger disk, as a cell does", async () => {
    const larger = await copyDisk("larger.img");
    await truncate(larger, 5 * 2 ** 30);
    const script = await readFile(
      path.join(import.meta.dirname, "../recipe/grow-partition.sh"),
      "utf8",
    );
    const [, change = "", flags = ""] = /^echo '(.*)' \| sfdisk (.*) -N /m.exec(script) ?? [];
    const command = `mount --bind "$1" "$2/tmp"; echo '${change}' | chroot "$2" sfdisk ${flags} -N 3 /tmp/larger.img`;
    const args = ["--mount", "sh", "-euc", command, "sh", folder.path, tree];
    await runCommand("unshare", args);
    assert.match(await inTree("sfdisk", "--verify", "/tmp/larger.img"), /No errors detected/);
    const table = await inTree("sfdisk", "--dump", "/tmp/larger.img");
    const { root } = diskLayout(image.rootDiskBytes);
    const [, start, sectors] = /start= *(\d+), size= *(\d+).*name="kip-root"/.exec(table) ?? [];
    assert.equal(Number(start), root.start);
    const end = (Number(start) + Number(sectors)) * sector;
    assert.ok(end > 5 * 2 ** 30 - 2 * 2 ** 20, `${end}`);
    // A second run changes nothing.
    await runCommand("unshare", args);
    assert.equal(await inTree("sfdisk", "--dump", "/tmp/larger.img"), table);
  });
});
