import { createHash } from "node:crypto";
import { copyFile, link, open, readFile, rm, truncate, writeFile } from "node:fs/promises";
import path from "node:path";
import { type Architecture, hostArchitecture } from "@kip/base";
import { cachedBuild } from "../build-cache.ts";
import { asBuildFailure } from "../build-failure.ts";
import type { CellImage } from "../cell-image.ts";
import { requireHostTools } from "../host-tools.ts";
import { buildPackageTree } from "../package-tree.ts";
import { runContained } from "../run-contained.ts";
import { cloudModules } from "./cloud-modules.ts";
import { diskLayout, partitionTable, rootLabel, type DiskLayout } from "./disk-layout.ts";
import { diskLoaders, placeBiosLoader, sectorBytes, type DiskLoaders } from "./loaders.ts";

/** Options of {@link buildBootDisk}. */
export interface BuildBootDiskOptions {
  /** Folder for disks and the tools that make them. It also contains the image. */
  readonly cacheDir: string;
  readonly image: CellImage;
  /** Called with one sentence at the start of each step that takes more than a second. */
  readonly onProgress?: ((message: string) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A bootable disk. Its file never changes. */
export interface BootDisk {
  /** Absolute path of a raw, sparse file. */
  readonly file: string;
  readonly architecture: Architecture;
}

const diskName = "disk.img";
/** Increase this when the way of making disks changes. The inputs are already part of the key. */
const revision = 1;
/** Additional kernel arguments: an EBS disk may take any time to answer. */
const cloudArguments = "nvme_core.io_timeout=4294967295";

/**
 * Returns a complete disk of an image, with partitions and a boot loader, for starting machines in clouds. Builds it if
 * necessary. Machines with UEFI can boot it, and on amd64 also machines with a BIOS. Only for root.
 *
 * @throws {CellImageError} `CELL_IMAGE_NOT_ROOT`, `CELL_IMAGE_TOOLS_MISSING`, `CELL_IMAGE_BUILD_FAILED`; the signal's reason
 */
export async function buildBootDisk(options: BuildBootDiskOptions): Promise<BootDisk> {
  const { cacheDir, image, signal } = options;
  const { architecture } = image;
  const loaders = diskLoaders[architecture];
  await requireHostTools(["mmdebstrap", "debugfs", "setpriv", "unshare", "flock"]);
  return await asBuildFailure("build a disk that boots", signal, async () => {
    const suffix = architecture === hostArchitecture ? "" : `:${architecture}`;
    const parts = loaders.packages.map((name) => `${name}${suffix}`);
    const packages = ["dosfstools", "fdisk", "grub-common", "mtools", ...parts];
    const tree = await buildPackageTree({ ...options, packages });
    const inputs = JSON.stringify([revision, image.id, architecture, cloudArguments]);
    const dir = await cachedBuild({
      cacheDir,
      kind: "disks",
      key: createHash("sha256").update(inputs).digest("hex").slice(0, 16),
      signal,
      build: async (work) => {
        options.onProgress?.("Writing a disk that boots");
        await build(work, { image, tree, loaders, signal });
      },
    });
    return { file: path.join(dir, diskName), architecture };
  });
}

interface DiskParts {
  readonly image: CellImage;
  /** Folder with the programs that make the disk. */
  readonly tree: string;
  readonly loaders: DiskLoaders;
  readonly signal?: AbortSignal | undefined;
}

async function build(work: string, parts: DiskParts): Promise<void> {
  const { image, tree, loaders, signal } = parts;
  const layout = diskLayout(image.rootDiskBytes);
  const file = (name: string): string => path.join(work, name);
  await copyFile(image.kernel, file("vmlinuz"));
  const modules = await cloudModules(image.rootDisk, signal);
  await writeFile(file("initrd"), Buffer.concat([await readFile(image.initrd), modules]));
  const line = `${image.cmdline.replace(/ root=\S+/, "")} ${cloudArguments} root=PARTLABEL=${rootLabel}`;
  await writeFile(file("grub.cfg"), `linux /vmlinuz ${line}\ninitrd /initrd\nboot\n`);
  await writeFile(file("partitions"), partitionTable(layout, image.id));
  await writeFile(file(diskName), "");
  await truncate(file(diskName), layout.diskBytes);
  const args = ["-euc", makeScript(layout, loaders), "sh", work, tree];
  await runContained("sh", args, { hasNetwork: false, signal });
  if (loaders.hasBios) await installBiosLoader(work, tree, layout);
  await link(image.rootDisk, file("root.img"));
  for (const [name, at] of [
    ["boot.img", layout.boot.start],
    ["root.img", layout.root.start],
  ] as const) {
    const where = [`if=${file(name)}`, `of=${file(diskName)}`, `seek=${at * sectorBytes}`];
    const how = ["bs=1M", "oflag=seek_bytes", "conv=notrunc,sparse", "status=none"];
    await runContained("dd", [...where, ...how], { hasNetwork: false, signal });
  }
  const used = ["vmlinuz", "initrd", "grub.cfg", "partitions", "boot.img", "root.img"];
  for (const name of [...used, loaders.efiFile, "core.img"]) await rm(file(name), { force: true });
}

/**
 * The folder with the programs has no shell. So the host's shell runs each program inside it, with the disk's folder as `/tmp`.
 */
function makeScript(layout: DiskLayout, { efiFormat, efiFile, hasBios }: DiskLoaders): string {
  const run = (command: string): string => `chroot "$2" ${command}`;
  const grub = (format: string, prefix: string, output: string, modules: string): string =>
    run(
      `grub-mkimage -O ${format} -d /usr/lib/grub/${format} -p '${prefix}' -c /tmp/grub.cfg -o /tmp/${output} ${modules}`,
    );
  const needed = "part_gpt fat linux boot";
  const boot = "/tmp/boot.img";
  return [
    'mount --bind "$1" "$2/tmp"',
    "export SOURCE_DATE_EPOCH=946684800 TZ=UTC",
    grub(efiFormat, "/grub", efiFile, needed),
    ...(hasBios ? [grub("i386-pc", "(,gpt2)/grub", "core.img", `biosdisk ${needed}`)] : []),
    run(`sfdisk --quiet /tmp/${diskName} <"$1/partitions"`),
    run(`mkfs.vfat -F 32 --invariant -n KIP-BOOT -C ${boot} ${layout.boot.sectors / 2} >/dev/null`),
    run(`mmd -i ${boot} ::EFI ::EFI/BOOT`),
    run(`mcopy -i ${boot} /tmp/${efiFile} ::EFI/BOOT/`),
    run(`mcopy -i ${boot} /tmp/vmlinuz /tmp/initrd ::`),
  ].join("\n");
}

async function installBiosLoader(work: string, tree: string, layout: DiskLayout): Promise<void> {
  const first = await readFile(path.join(tree, "usr/lib/grub/i386-pc/boot.img"));
  const second = await readFile(path.join(work, "core.img"));
  const { start, sectors } = layout.loader;
  if (second.length > sectors * sectorBytes)
    throw new RangeError(`GRUB takes ${second.length} bytes, which its partition does not have`);
  const code = placeBiosLoader(first, second, start);
  await using disk = await open(path.join(work, diskName), "r+");
  await disk.write(code, 0, code.length, 0);
  await disk.write(second, 0, second.length, start * sectorBytes);
}
