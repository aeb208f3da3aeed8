import fs from "node:fs";
import path from "node:path";
import { makeFolderSync, runCommand } from "@kip/base";
import { mountPlace, type ContainerMount } from "@kip/oci-runtime";
import { pinInRoot } from "../volumes/safe-path.ts";

/** Mount points of the runtime itself, where an image must not put its own files. */
const ownPlaces = ["/dev", "/proc", "/sys"];

/**
 * Creates an image's volumes (`VOLUME`), like containerd and CRI-O: a folder of the run for each, with the image's content at
 * that path, unless the pod mounts something there. They are writable even if the root file system is read-only, and are
 * removed with the run.
 */
export async function imageVolumes(options: {
  /** Normalized absolute paths from the image. */
  readonly volumes: readonly string[];
  /** Existing mounts. */
  readonly mounts: readonly Pick<ContainerMount, "destination">[];
  /** The image's files. Nothing is running in it yet. */
  readonly rootfs: string;
  /** Folder for the volumes, which is created. */
  readonly directory: string;
  /** User and group of a volume without content in the image. @default 0 */
  readonly owner?: number;
}): Promise<readonly ContainerMount[]> {
  const { rootfs, directory, owner = 0 } = options;
  const taken = new Set(options.mounts.map(({ destination }) => destination));
  const wanted = new Set(options.volumes.map((place) => path.posix.resolve("/", place)));
  const mounts: ContainerMount[] = [];
  for (const destination of wanted) {
    if (taken.has(destination) || isKept(mountPlace(rootfs, destination))) continue;
    const source = path.join(directory, String(mounts.length));
    makeFolderSync(source, 0o755, { recursive: true });
    fs.chownSync(source, owner, owner);
    await copyContent(rootfs, destination, source);
    mounts.push({ source, destination, readOnly: false });
  }
  return mounts;
}

/** Whether this is or may be the root, which a mount would hide, or one of the runtime's own mount points. */
function isKept(place: string | undefined): boolean {
  if (place === undefined) return true;
  return place === "/" || ownPlaces.some((own) => place === own || place.startsWith(`${own}/`));
}

/** Copies a folder of the image with its owner and mode, without following links. Does nothing if it does not exist. */
async function copyContent(rootfs: string, place: string, target: string): Promise<void> {
  using pinned = pinInRoot(rootfs, place);
  if (pinned?.isDirectory !== true) return;
  const { uid, gid, mode } = fs.statSync(pinned.path);
  fs.chownSync(target, uid, gid);
  fs.chmodSync(target, mode & 0o7777);
  using entries = fs.opendirSync(pinned.path);
  // Not if it is empty, as most are, because that would start a program.
  if (entries.readSync() === null) return;
  await runCommand("cp", ["-a", "--", `${pinned.path}/.`, target]);
}
