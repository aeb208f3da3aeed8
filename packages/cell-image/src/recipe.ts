import path from "node:path";
import type { Architecture } from "@kip/base";

/** Where the scripts of the images are. */
export const recipeDirectory = path.join(import.meta.dirname, "..", "recipe");

/** What a cell's operating system is made of. A change here gives a new image. */
export const recipe = {
  /** Raise it to rebuild with newer packages of the same suite. */
  revision: 1,
  suite: "bookworm",
  /** On top of the packages that Debian calls essential. */
  packages: [
    "busybox-static",
    "ca-certificates",
    "conmon",
    "crun",
    "e2fsprogs",
    // sfdisk, which grows the partition of a root disk that has one.
    "fdisk",
    "iproute2",
    "kmod",
    "nftables",
    "socat",
    // Without it, usrmerge comes instead and brings the whole of Perl.
    "usr-is-merged",
    "util-linux",
  ],
  /** Left out of every package: they are not read on a cell. */
  excludedPaths: [
    "/usr/share/bash-completion/*",
    "/usr/share/doc/*",
    "/usr/share/info/*",
    "/usr/share/lintian/*",
    "/usr/share/locale/*",
    "/usr/share/man/*",
  ],
  /**
   * Loaded before the root is mounted, with what they depend on; isofs is for the seed, and sooner loaded here. The
   * others load when the kernel asks for them.
   */
  earlyModules: ["virtio_pci", "virtio_mmio", "virtio_blk", "virtio_net", "virtio_rng", "isofs"],
  /** Loaded besides where the machine boots a whole disk of a cloud: networks and, of older machines, disks of EC2. */
  cloudModules: ["ena", "xen_blkfront", "xen_netfront"],
  /** Logical size of the root disk, bytes. It is sparse; a larger disk is taken into use at boot. */
  rootDiskBytes: 1024 ** 3,
} as const;

/** Debian package that depends on the newest kernel for machines of clouds. */
export function kernelPackage(architecture: Architecture): string {
  return `linux-image-cloud-${architecture}`;
}

/** Serial ports that the kernel writes to, of which a machine has one. With arm64, QEMU's is the second, that of EC2 the first. */
const consoles: Readonly<Record<Architecture, readonly string[]>> = {
  amd64: ["ttyS0"],
  arm64: ["ttyS0", "ttyAMA0"],
};

/**
 * Kernel command line. `cryptomgr.notests` saves a third of a second under emulation: the kernel's self-tests of its
 * ciphers matter to FIPS certificates only.
 */
export function cmdline(architecture: Architecture): string {
  const ports = consoles[architecture].map((port) => `console=${port}`).join(" ");
  return `${ports} quiet panic=-1 net.ifnames=0 cryptomgr.notests=1 root=/dev/vda`;
}

/** Where Debian comes from when the host names no source for the suite. */
export const defaultSources = [
  `deb http://deb.debian.org/debian ${recipe.suite} main`,
  `deb http://deb.debian.org/debian ${recipe.suite}-updates main`,
  `deb http://deb.debian.org/debian-security ${recipe.suite}-security main`,
] as const;

/** Files of the recipe folder that go onto the cell with the agent, and where. A change of them does not rebuild the root. */
export const bootFiles: Readonly<Record<string, string>> = {
  "become.pl": "usr/lib/kip/become",
  "boot.sh": "usr/lib/kip/boot",
  "grow-partition.sh": "usr/lib/kip/grow-partition",
  "run-agent.sh": "usr/lib/kip/run-agent",
  "udhcpc.sh": "usr/lib/kip/udhcpc",
  inittab: "etc/inittab",
};
