import { mapOwners, mount, unmount } from "@kip/base";
import { mountDisk, unmountDisk, type DiskVolume } from "./disk-volume.ts";
import { isMounted, mountedOf, mountsBelow } from "./mount-points.ts";

/** Mounts file systems. */
export interface Mounter {
  /** Mounts a tmpfs or huge pages at an existing folder. Does nothing if something is mounted there. */
  mountTmpfs(
    directory: string,
    options: {
      readonly sizeBytes?: number | undefined;
      /** Page size, to mount a hugetlbfs. @default a tmpfs */
      readonly pageBytes?: number | undefined;
      /** Group of the mount and of everything created in it. @default root's */
      readonly group?: number | undefined;
      /** The user and group ID on the cell that are 0 in the pod. `group` is relative to it. @default 0 */
      readonly owner?: number | undefined;
    },
  ): Promise<void>;
  /** Bind mounts a file or folder at an existing path of the same kind. */
  bind(source: string, target: string): Promise<void>;
  /** Bind mounts files and folders with mapped owners at existing paths of the same kind, see `mapOwners`. */
  bindMapped(namespace: string, pairs: readonly (readonly [string, string])[]): Promise<void>;
  /** Mounts a disk of this machine at an existing folder, with its file system, see {@link mountDisk}. */
  mountDisk(directory: string, volume: DiskVolume): Promise<void>;
  /** Unmounts a disk, if it is mounted, after everything is written. */
  unmountDisk(directory: string): Promise<void>;
  /** Unmounts what is mounted at these places, if anything. */
  unmount(...places: readonly string[]): Promise<void>;
  /** Unmounts what containers have mounted below a folder, but not what is mounted at the folder itself. */
  unmountBelow(directory: string): Promise<void>;
  /**
   * Makes mounts shared, both existing and future ones, so that containers can see later mounts and make theirs visible. A
   * container's mounts are still private unless it requests this. Repeating it has no effect.
   */
  share(): Promise<void>;
}

/** Maximum number of places for one umount(8). It reads all mounts of the machine, and a pod may have ten thousand. */
const maxAtOnce = 200;

/** Uses mount(8) and umount(8), because Node has no function for them. Needs root. */
export const kernelMounter: Mounter = {
  mountTmpfs: async (directory, { sizeBytes, pageBytes, group, owner = 0 }) => {
    if (await isMounted(directory)) return;
    const type = pageBytes === undefined ? "tmpfs" : "hugetlbfs";
    const size = [
      ...(pageBytes === undefined ? [] : [`pagesize=${pageBytes}`]),
      ...(sizeBytes === undefined ? [] : [`size=${sizeBytes}`]),
    ];
    // Like a kubelet, keep the kernel's mode of a tmpfs, 01777, and add setgid for a group.
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
  unmount: async (...places) => {
    const mounted = await mountedOf(places);
    for (let at = 0; at < mounted.length; at += maxAtOnce)
      await unmount(["-l", ...mounted.slice(at, at + maxAtOnce)]);
  },
  unmountBelow: async (directory) => {
    for (const place of await mountsBelow(directory)) await unmount(["-l", place]);
  },
  share: async () => {
    await mount(["--make-rshared", "/"]);
  },
};
