import fs from "node:fs";
import path from "node:path";
import { makeFolderSync, runCommand } from "@kip/base";
import { mountPlace, type ContainerMount } from "@kip/oci-runtime";
import { pinInRoot } from "../volumes/safe-path.ts";

/** What the runtime mounts itself: an image must not put its own files in these places. */
const ownPlaces = ["/dev", "/proc", "/sys"];

/**
 * Makes the volumes that an image asks for (`VOLUME`), as containerd and CRI-O do: a directory of the run's own for each, with
 * what the image has at the path, unless the pod mounts something there. It can be written to also when the root file
 * system is read-only, and goes with the run.
 */
export async function imageVolumes(options: {
  /** Clean absolute paths, of the image. */
  readonly volumes: readonly string[];
  /** What is mounted already. */
  readonly mounts: readonly Pick<ContainerMount, "destination">[];
  /** The image's files; nothing runs in it yet. */
  readonly rootfs: string;
  /** Takes the volumes; made. */
  readonly directory: string;
  /** User and group of a volume that the image has nothing for. @default 0 */
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

/** Whether this is the root, which a mount would hide, or the runtime's own; or may be. */
function isKept(place: string | undefined): boolean {
  if (place === undefined) return true;
  return place === "/" || ownPlaces.some((own) => place === own || place.startsWith(`${own}/`));
}

/** Copies a directory of the image with its owner and mode, links as links; does nothing if there is none. */
async function copyContent(rootfs: string, place: string, target: string): Promise<void> {
  using pinned = pinInRoot(rootfs, place);
  if (pinned?.isDirectory !== true) return;
  const { uid, gid, mode } = fs.statSync(pinned.path);
  fs.chownSync(target, uid, gid);
  fs.chmodSync(target, mode & 0o7777);
  using entries = fs.opendirSync(pinned.path);
  // Not for an empty one, as most are: it costs the start of a program.
  if (entries.readSync() === null) return;
  await runCommand("cp", ["-a", "--", `${pinned.path}/.`, target]);
}
