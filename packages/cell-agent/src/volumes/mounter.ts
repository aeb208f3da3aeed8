import { mount, unmount } from "@kip/base";
import { mountDisk, unmountDisk, type DiskVolume } from "./disk-volume.ts";
import { isMounted } from "./mount-points.ts";

/** Mounts file systems. */
export interface Mounter {
  /** Mounts a tmpfs at an existing directory; does nothing if something is mounted there. */
  mountTmpfs(
    directory: string,
    options: {
      readonly sizeBytes?: number | undefined;
      /** Owns it, and all that is made in it. @default root's */
      readonly group?: number | undefined;
    },
  ): Promise<void>;
  /** Shows a file or directory at an existing place of its kind as well. */
  bind(source: string, target: string): Promise<void>;
  /** Mounts a disk of this machine at an existing directory, with its file system; {@link mountDisk}. */
  mountDisk(directory: string, volume: DiskVolume): Promise<void>;
  /** Takes a disk's mount away, if there is one, once everything is written. */
  unmountDisk(directory: string): Promise<void>;
  /** Takes a mount away, if there is one. */
  unmount(directory: string): Promise<void>;
}

/** The kernel's own, by mount(8) and umount(8): Node has no call for them. Needs root. */
export const kernelMounter: Mounter = {
  mountTmpfs: async (directory, { sizeBytes, group }) => {
    if (await isMounted(directory)) return;
    const size = sizeBytes === undefined ? [] : [`size=${sizeBytes}`];
    const owner = group === undefined ? ["mode=0777"] : ["mode=02777", `gid=${group}`];
    const options = [...owner, "nosuid", "nodev", ...size].join(",");
    await mount(["-t", "tmpfs", "-o", options, "tmpfs", directory]);
  },
  bind: async (source, target) => {
    await mount(["-o", "bind", source, target]);
  },
  mountDisk: async (directory, volume) => await mountDisk(directory, volume),
  unmountDisk,
  unmount: async (directory) => {
    if (await isMounted(directory)) await unmount(["-l", directory]);
  },
};
