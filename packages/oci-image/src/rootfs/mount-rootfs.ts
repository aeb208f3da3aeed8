import { chmodSync, chownSync, mkdirSync, statSync, utimesSync } from "node:fs";
import { rm } from "node:fs/promises";
import path from "node:path";
import { hasCode, KipError, mount, unmount } from "@kip/base";

/** Names inside a container's folder. */
const parts = { upper: "upper", work: "work", rootfs: "rootfs" } as const;

/**
 * Mounts layers, bottom first, under a writable one of the container's own.
 * @throws {KipError} code `ROOTFS_MOUNT_FAILED`
 */
export async function mountRootfs(
  layers: readonly string[],
  containerDir: string,
): Promise<{ readonly rootfs: string }> {
  const rootfs = path.join(containerDir, parts.rootfs);
  if (isMounted(rootfs)) return { rootfs };
  const top = layers.at(-1);
  if (top === undefined) throw mountError(containerDir, "there are no layers to mount");
  const upper = path.join(containerDir, parts.upper);
  for (const folder of [upper, path.join(containerDir, parts.work), rootfs]) {
    mkdirSync(folder, { recursive: true });
  }
  try {
    copyLook(top, upper);
  } catch (error) {
    throw mountError(containerDir, "a layer cannot be read", error);
  }
  // The kernel takes one page of options: layers go by names in their common folder, the
  // container's by a path relative to it.
  const store = path.dirname(top);
  const lower = layers.toReversed().map((layer) => path.relative(store, layer));
  const own = path.relative(store, containerDir);
  if ([...lower, own].some((name) => /[,:\\]/.test(name))) {
    throw mountError(containerDir, "its path or a layer's holds one of , : \\");
  }
  const options = [
    `lowerdir=${lower.join(":")}`,
    `upperdir=${path.join(own, parts.upper)}`,
    `workdir=${path.join(own, parts.work)}`,
  ].join(",");
  try {
    await mount(["-t", "overlay", "overlay", "-o", options, rootfs], { cwd: store });
  } catch (error) {
    throw mountError(containerDir, "the overlay mount failed", error);
  }
  return { rootfs };
}

/** Takes the mount of {@link mountRootfs} and what was written into it away; fine if there is none. */
export async function unmountRootfs(containerDir: string): Promise<void> {
  const rootfs = path.join(containerDir, parts.rootfs);
  while (isMounted(rootfs)) await unmount([rootfs]);
  for (const name of Object.values(parts)) {
    await rm(path.join(containerDir, name), { recursive: true, force: true });
  }
}

/** The root of an overlay looks as its topmost folder does. */
function copyLook(from: string, to: string): void {
  const { mode, uid, gid, atime, mtime } = statSync(from);
  chownSync(to, uid, gid);
  chmodSync(to, mode & 0o7777);
  utimesSync(to, atime, mtime);
}

/** A mount point is on another device than the folder it is in. */
function isMounted(folder: string): boolean {
  const [here, above] = [deviceOf(folder), deviceOf(path.dirname(folder))];
  return here !== undefined && here !== above;
}

function deviceOf(file: string): number | undefined {
  try {
    return statSync(file).dev;
  } catch (error) {
    if (hasCode(error, "ENOENT")) return undefined;
    throw error;
  }
}

function mountError(containerDir: string, reason: string, cause?: unknown): KipError {
  return new KipError(
    "ROOTFS_MOUNT_FAILED",
    `Cannot mount a root in "${containerDir}": ${reason}`,
    {
      cause,
      remedy: "It needs root and a kernel with overlayfs",
    },
  );
}
