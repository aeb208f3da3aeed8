import type { Architecture } from "@kip/base";

/** How machines of an architecture start a disk: GRUB, as Debian has it. */
export interface DiskLoaders {
  /** Debian packages with GRUB's parts. */
  readonly packages: readonly string[];
  /** Name of GRUB's platform for UEFI. */
  readonly efiFormat: string;
  /** What the firmware looks for on a disk: the specification fixes it. */
  readonly efiFile: string;
  /** Whether there are machines without UEFI, with a BIOS. */
  readonly hasBios: boolean;
}

export const diskLoaders: Readonly<Record<Architecture, DiskLoaders>> = {
  amd64: {
    packages: ["grub-efi-amd64-bin", "grub-pc-bin"],
    efiFormat: "x86_64-efi",
    efiFile: "BOOTX64.EFI",
    hasBios: true,
  },
  arm64: {
    packages: ["grub-efi-arm64-bin"],
    efiFormat: "arm64-efi",
    efiFile: "BOOTAA64.EFI",
    hasBios: false,
  },
};

/** Bytes of a sector, as partition tables and BIOSes count. */
export const sectorBytes = 512;

/** Where GRUB's first sector says what it loads, and what it must not overwrite: the disk's own signature and table. */
const bootSector = { kernelSector: 0x5c, driveCheck: 0x66, codeEnd: 0x1b8 };
/** The list at the end of the second part's first sector: start, count of sectors, segment. */
const blockList = { start: 0x1f4, count: 0x1fc };

/**
 * Makes GRUB's two parts for a BIOS fit for a place: the first is the code of the disk's first sector, the second begins at a sector of
 * a partition of its own.
 *
 * @param first content of GRUB's `boot.img`
 * @param second content of `core.img`, which is changed
 * @param at sector in which the second will begin
 * @returns the code of the first sector, to be written before the disk's table
 * @throws {RangeError} if `second` is not what `grub-mkimage -O i386-pc` makes
 * @see https://www.gnu.org/software/grub/manual/grub/html_node/Images.html
 */
export function placeBiosLoader(first: Uint8Array, second: Buffer, at: number): Buffer {
  const rest = Math.ceil(second.length / sectorBytes) - 1;
  if (second.readUInt16LE(blockList.count) !== rest)
    throw new RangeError("Cannot install GRUB: its image does not list its own sectors");
  second.writeBigUInt64LE(BigInt(at + 1), blockList.start);
  const code = Buffer.from(first.subarray(0, bootSector.codeEnd));
  code.writeBigUInt64LE(BigInt(at), bootSector.kernelSector);
  // No jump there: the BIOS says which disk it has booted, and those that say it wrongly mean the first.
  code.writeUInt16LE(0x9090, bootSector.driveCheck);
  return code;
}
