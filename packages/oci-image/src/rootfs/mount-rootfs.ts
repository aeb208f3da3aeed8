import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  statSync,
  utimesSync,
} from "node:fs";
import path from "node:path";
import { mapOwners, mount, unmount, type Mount } from "@kip/base";
import { ImageError } from "../errors.ts";
import { removeFolder } from "../unpack/remove-tree.ts";

/** Absolute paths of a writable root file system's folders. All except `rootfs` are on one file system. */
export interface OverlayPlaces {
  /** Mount point. */
  readonly rootfs: string;
  /** The writable layer. */
  readonly upper: string;
  /** The kernel's working folder. */
  readonly work: string;
}

/** The paths in a container's folder. */
function placesIn(containerDir: string): OverlayPlaces {
  return {
    rootfs: path.join(containerDir, "rootfs"),
    upper: path.join(containerDir, "upper"),
    work: path.join(containerDir, "work"),
  };
}

/**
 * Mounts layers, bottom first, with a writable layer for the container on top.
 *
 * @throws {ImageError} code `ROOTFS_MOUNT_FAILED`
 */
export async function mountRootfs(
  layers: readonly string[],
  containerDir: string,
  { by, users }: { readonly by?: Mount | undefined; readonly users?: string | undefined } = {},
): Promise<{ readonly rootfs: string }> {
  const places = placesIn(containerDir);
  if (users) await mountMapped(layers, containerDir, users);
  else await mountOverlay(layers, places, by);
  return { rootfs: places.rootfs };
}

/** Like {@link mountOverlay}, with owners mapped by a user namespace. */
async function mountMapped(
  layers: readonly string[],
  containerDir: string,
  users: string,
): Promise<void> {
  const places = placesIn(containerDir);
  if (isMounted(places.rootfs)) return;
  await unmountMapped(containerDir); // left by an attempt that was killed
  // With the trees' names, because those show that a tree is in use.
  const folders = layers.map(
    (layer) => [layer, path.join(mappedIn(containerDir), path.basename(layer))] as const,
  );
  for (const [, place] of folders) mkdirSync(place, { recursive: true });
  try {
    await mapOwners(users, folders);
    await mountOverlay(
      folders.map(([, place]) => place),
      places,
    );
  } catch (error) {
    if (error instanceof ImageError) throw error;
    throw mountError(places.rootfs, "its file system cannot map owners", error);
  } finally {
    // The overlay keeps its layers in use.
    await unmountMapped(containerDir);
  }
}

/** Folder in which layers with mapped owners are mounted temporarily. */
function mappedIn(containerDir: string): string {
  return path.join(containerDir, "mapped");
}

async function unmountMapped(containerDir: string): Promise<void> {
  const folder = mappedIn(containerDir);
  if (!existsSync(folder)) return;
  const mounts = readFileSync("/proc/self/mountinfo", "utf8").split("\n");
  // The mount point is the fifth field of proc_pid_mountinfo(5). An idmapped mount has the same device as its parent folder.
  const places = mounts.map((line) => line.split(" ")[4] ?? "");
  for (const place of places.filter((each) => each.startsWith(`${folder}/`)))
    await unmount(["-l", place]);
  // Never recursively: if a mount were left, its content would be that of the image.
  for (const name of readdirSync(folder)) rmdirSync(path.join(folder, name));
  rmdirSync(folder);
}

/** Removes the mount of {@link mountRootfs} and its writable layer. Does nothing if there is none. */
export async function unmountRootfs(containerDir: string): Promise<void> {
  await unmountMapped(containerDir);
  await unmountOverlay(placesIn(containerDir));
}

/**
 * Mounts layers, bottom first, with a writable one on top. A second call changes nothing.
 *
 * @throws {ImageError} code `ROOTFS_MOUNT_FAILED`
 */
export async function mountOverlay(
  layers: readonly string[],
  places: OverlayPlaces,
  by: Mount = mount,
): Promise<void> {
  const { rootfs } = places;
  if (isMounted(rootfs)) return;
  const top = layers.at(-1);
  if (top === undefined) throw mountError(rootfs, "there are no layers to mount");
  for (const folder of [places.upper, places.work, rootfs]) mkdirSync(folder, { recursive: true });
  try {
    copyLook(top, places.upper);
  } catch (error) {
    throw mountError(rootfs, "a layer cannot be read", error);
  }
  // The kernel accepts one page of options. So layers are given by their names in a common folder, and the container's folders
  // by relative paths.
  const store = path.dirname(top);
  const lower = layers.toReversed().map((layer) => path.relative(store, layer));
  const upper = path.relative(store, places.upper);
  const work = path.relative(store, places.work);
  if ([...lower, upper, work].some((name) => /[,:\\]/.test(name))) {
    throw mountError(rootfs, "its path or a layer's holds one of , : \\");
  }
  const options = [`lowerdir=${lower.join(":")}`, `upperdir=${upper}`, `workdir=${work}`].join(",");
  try {
    await by(["-t", "overlay", "overlay", "-o", options, rootfs], { cwd: store });
  } catch (error) {
    throw mountError(rootfs, "the overlay mount failed", error);
  }
}

/** Removes the mount of {@link mountOverlay} and its writable layer. Does nothing if there is none. */
export async function unmountOverlay(places: OverlayPlaces): Promise<void> {
  while (isMounted(places.rootfs)) await unmount([places.rootfs]);
  for (const folder of [places.upper, places.work, places.rootfs]) {
    await removeFolder(folder);
  }
}

/** The root of an overlay has the attributes of its top folder. */
function copyLook(from: string, to: string): void {
  const { mode, uid, gid, atime, mtime } = statSync(from);
  chownSync(to, uid, gid);
  chmodSync(to, mode & 0o7777);
  utimesSync(to, atime, mtime);
}

/** A mount point is on another device than its parent folder. */
function isMounted(folder: string): boolean {
  const [here, above] = [deviceOf(folder), deviceOf(path.dirname(folder))];
  return here !== undefined && here !== above;
}

function deviceOf(file: string): number | undefined {
  return statSync(file, { throwIfNoEntry: false })?.dev;
}

function mountError(rootfs: string, reason: string, cause?: unknown): ImageError {
  return new ImageError("ROOTFS_MOUNT_FAILED", reason, {
    action: `mount a root at "${rootfs}"`,
    cause,
    remedy: "It needs root and a kernel with overlayfs",
  });
}
