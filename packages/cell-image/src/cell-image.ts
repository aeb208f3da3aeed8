import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { type Architecture, decode, hostArchitecture } from "@kip/base";

/** An image that machines can boot. Its files never change. */
export interface CellImage {
  /** 16 hexadecimal digits, a hash of all inputs of the image. */
  readonly id: string;
  readonly architecture: Architecture;
  /** Absolute path of the folder with the files below. */
  readonly dir: string;
  /** Absolute path of the kernel, for QEMU's `-kernel`. */
  readonly kernel: string;
  /** Absolute path of the initial file system, for QEMU's `-initrd`. */
  readonly initrd: string;
  /** Absolute path of the root disk: raw, sparse, and used as a backing file. */
  readonly rootDisk: string;
  /** Logical size of the root disk, bytes. A machine's disk must be at least as large. */
  readonly rootDiskBytes: number;
  /** Kernel command line, to which the launcher appends its `kip.*` arguments. */
  readonly cmdline: string;
  /** Whether a machine with this image can be a template, because it supports the argument `kip.template`. */
  readonly template: boolean;
}

const decodeManifest = decode.object({
  schema: decode.integer,
  id: decode.string,
  architecture: decode.optional(decode.oneOf("amd64", "arm64")),
  kernel: decode.string,
  initrd: decode.string,
  rootDisk: decode.string,
  rootDiskBytes: decode.integer,
  cmdline: decode.string,
  template: decode.optional(decode.boolean),
});

/** Reads an image's folder. @throws {DecodeError} `DECODE_FAILED`; `ENOENT` of the file system */
export async function readCellImage(dir: string): Promise<CellImage> {
  const manifest = decodeManifest(
    JSON.parse(await readFile(path.join(dir, "image.json"), "utf8")),
    "image.json",
  );
  return {
    id: manifest.id,
    // Images without this field were built for the computer that built them.
    architecture: manifest.architecture ?? hostArchitecture,
    dir,
    kernel: path.join(dir, manifest.kernel),
    initrd: path.join(dir, manifest.initrd),
    rootDisk: path.join(dir, manifest.rootDisk),
    rootDiskBytes: manifest.rootDiskBytes,
    cmdline: manifest.cmdline,
    template: manifest.template ?? false,
  };
}

/** Writes the manifest into the folder of an image under construction. */
export async function writeManifest(dir: string, image: Omit<CellImage, "dir">): Promise<void> {
  const manifest = { schema: 1, ...image, created: new Date().toISOString() };
  await writeFile(path.join(dir, "image.json"), `${JSON.stringify(manifest, null, 2)}\n`);
}
