import { mapOwners, mount, unmount } from "@kip/base";
import { mountDisk, unmountDisk, type DiskVolume } from "./disk-volume.ts";
import { isMounted, mountsBelow } from "./mount-points.ts";

/** Mounts file systems. */
export interface Mounter {
  /** Mounts a tmpfs, or huge pages, at an existing directory; does nothing if something is mounted there. */
  mountTmpfs(
    directory: string,
    options: {
      readonly sizeBytes?: number | undefined;
      /** The size of huge pages; a hugetlbfs of these. @default a tmpfs */
      readonly pageBytes?: number | undefined;
      /** Owns it, and all that is made in it. @default root's */
      readonly group?: number | undefined;
      /** The user and the group that 0 of the pod is, by which `group` counts. @default 0 */
      readonly owner?: number | undefined;
    },
  ): Promise<void>;
  /** Shows a file or directory at an existing place of its kind as well. */
  bind(source: string, target: string): Promise<void>;
  /** Shows files and directories at existing places of their kind, with other owners; see `mapOwners`. */
  bindMapped(namespace: string, pairs: readonly (readonly [string, string])[]): Promise<void>;
  /** Mounts a disk of this machine at an existing directory, with its file system; {@link mountDisk}. */
  mountDisk(directory: string, volume: DiskVolume): Promise<void>;
  /** Takes a disk's mount away, if there is one, once everything is written. */
  unmountDisk(directory: string): Promise<void>;
  /** Takes a mount away, if there is one. */
  unmount(directory: string): Promise<void>;
  /** Takes away what containers have mounted below a directory; not what is mounted at the directory itself. */
  unmountBelow(directory: string): Promise<void>;
  /**
   * From now on containers can see mounts that are made later, and have theirs seen: of those that are there and of those
   * to come. A container's mounts are private nevertheless unless it wants this of them. Does nothing when done again.
   */
  share(): Promise<void>;
}

/** The kernel's own, by mount(8) and umount(8): Node has no call for them. Needs root. */
export const kernelMounter: Mounter = {
  mountTmpfs: async (directory, { sizeBytes, pageBytes, group, owner = 0 }) => {
    if (await isMounted(directory)) return;
    const type = pageBytes === undefined ? "tmpfs" : "hugetlbfs";
    const size = [
      ...(pageBytes === undefined ? [] : [`pagesize=${pageBytes}`]),
      ...(sizeBytes === undefined ? [] : [`size=${sizeBytes}`]),
    ];
    // A kubelet leaves the kernel's mode of a tmpfs, 01777, and adds setgid for a group.
    const sticky = pageBytes === undefined ? 0o1000 : 0;
    const bits = 0o777 | sticky | (group === undefined ? 0 : 0o2000);
    const mode = `mode=0${bits.toString(8)}`;
    const owners = [`uid=${owner}`, `gid=${owner + (group ?? 0)}`];
    const options = [mode, ...owners, "nosuid", "nodev", ...size].join(",");
    await mount(["-t", type, "-o", options, type, directory]);
  },
  bind: async (source, target) => {
    await mount(["-o", "bind", source, target]);
  },
  bindMapped: mapOwners,
  mountDisk: async (directory, volume) => await mountDisk(directory, volume),
  unmountDisk,
  unmount: async (directory) => {
    if (await isMounted(directory)) await unmount(["-l", directory]);
  },
  unmountBelow: async (directory) => {
    for (const place of await mountsBelow(directory)) await unmount(["-l", place]);
  },
  share: async () => {
    await mount(["--make-rshared", "/"]);
  },
};
