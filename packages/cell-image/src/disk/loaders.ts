import type { Architecture } from "@kip/base";

/** How machines of an architecture boot from a disk: with Debian's GRUB. */
export interface DiskLoaders {
  /** Debian packages that contain GRUB's parts. */
  readonly packages: readonly string[];
  /** Name of GRUB's platform for UEFI. */
  readonly efiFormat: string;
  /** The file that the firmware looks for, fixed by the UEFI specification. */
  readonly efiFile: string;
  /** Whether there are machines with a BIOS instead of UEFI. */
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

/** Bytes per sector in partition tables and for BIOSes. */
export const sectorBytes = 512;

/**
 * Offsets in GRUB's first sector: the location of the second part, the drive check, and the end of the code. The disk's own
 * signature and table follow the code and must not be overwritten.
 */
const bootSector = { kernelSector: 0x5c, driveCheck: 0x66, codeEnd: 0x1b8 };
/** Offsets in the list at the end of the second part's first sector, which has start, sector count and segment. */
const blockList = { start: 0x1f4, count: 0x1fc };

/**
 * Adapts GRUB's two parts for a BIOS to their place on a disk. The first part is the code in the disk's first sector. The
 * second part starts at a sector of its own partition.
 *
 * @param first content of GRUB's `boot.img`
 * @param second content of `core.img`, which is changed
 * @param at sector at which the second part will start
 * @returns the code of the first sector, which is written before the disk's table
 * @throws {RangeError} if `second` is not the output of `grub-mkimage -O i386-pc`
 * @see https://www.gnu.org/software/grub/manual/grub/html_node/Images.html
 */
export function placeBiosLoader(first: Uint8Array, second: Buffer, at: number): Buffer {
  const rest = Math.ceil(second.length / sectorBytes) - 1;
  if (second.readUInt16LE(blockList.count) !== rest)
    throw new RangeError("Cannot install GRUB: its image does not list its own sectors");
  second.writeBigUInt64LE(BigInt(at + 1), blockList.start);
  const code = Buffer.from(first.subarray(0, bootSector.codeEnd));
  code.writeBigUInt64LE(BigInt(at), bootSector.kernelSector);
  // Replace the jump around the drive check with no-ops, which enables the check: if the BIOS reports an invalid drive, it uses
  // the first disk.
  code.writeUInt16LE(0x9090, bootSector.driveCheck);
  return code;
}
