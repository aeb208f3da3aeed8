import path from "node:path";
import type { Architecture } from "@kip/base";

/** Folder with the scripts of the images. */
export const recipeDirectory = path.join(import.meta.dirname, "..", "recipe");

/** The content of a cell's operating system. A change here gives a new image. */
export const recipe = {
  /** Increase this to rebuild with newer packages of the same suite. */
  revision: 1,
  suite: "bookworm",
  /** In addition to the packages that Debian calls essential. */
  packages: [
    "busybox-static",
    "ca-certificates",
    "conmon",
    "crun",
    "e2fsprogs",
    // Contains sfdisk, which grows the partition of a root disk that has one.
    "fdisk",
    "iproute2",
    "kmod",
    "nftables",
    "socat",
    // Without it, usrmerge is installed instead, which needs all of Perl.
    "usr-is-merged",
    "util-linux",
  ],
  /** Left out of all packages, because a cell does not read them. */
  excludedPaths: [
    "/usr/share/bash-completion/*",
    "/usr/share/doc/*",
    "/usr/share/info/*",
    "/usr/share/lintian/*",
    "/usr/share/locale/*",
    "/usr/share/man/*",
  ],
  /**
   * Loaded with their dependencies before the root is mounted. isofs is for the seed, and loads faster here. The kernel
   * requests other modules as it needs them.
   */
  earlyModules: ["virtio_pci", "virtio_mmio", "virtio_blk", "virtio_net", "virtio_rng", "isofs"],
  /** Loaded in addition on machines that boot from a cloud's disk: network drivers, and disk drivers for older EC2 machines. */
  cloudModules: ["ena", "xen_blkfront", "xen_netfront"],
  /** Logical size of the root disk, bytes. The file is sparse. A machine starts using a larger disk at boot. */
  rootDiskBytes: 1024 ** 3,
} as const;

/** Debian package that depends on the newest kernel for machines in clouds. */
export function kernelPackage(architecture: Architecture): string {
  return `linux-image-cloud-${architecture}`;
}

/** Serial ports for the kernel's output. A machine has one of them: on arm64, the second with QEMU and the first on EC2. */
const consoles: Readonly<Record<Architecture, readonly string[]>> = {
  amd64: ["ttyS0"],
  arm64: ["ttyS0", "ttyAMA0"],
};

/**
 * Kernel command line. `cryptomgr.notests` saves a third of a second under emulation. Those self-tests of ciphers only matter
 * for FIPS certification.
 */
export function cmdline(architecture: Architecture): string {
  const ports = consoles[architecture].map((port) => `console=${port}`).join(" ");
  return `${ports} quiet panic=-1 net.ifnames=0 cryptomgr.notests=1 root=/dev/vda`;
}

/** Debian's sources if the host has none for the suite. */
export const defaultSources = [
  `deb http://deb.debian.org/debian ${recipe.suite} main`,
  `deb http://deb.debian.org/debian ${recipe.suite}-updates main`,
  `deb http://deb.debian.org/debian-security ${recipe.suite}-security main`,
] as const;

/**
 * Files of the recipe folder that are copied to the cell together with the agent, and their places. Changing them does not
 * rebuild the root.
 */
export const bootFiles: Readonly<Record<string, string>> = {
  "become.pl": "usr/lib/kip/become",
  "boot.sh": "usr/lib/kip/boot",
  "grow-partition.sh": "usr/lib/kip/grow-partition",
  "run-agent.sh": "usr/lib/kip/run-agent",
  "udhcpc.sh": "usr/lib/kip/udhcpc",
  inittab: "etc/inittab",
};
