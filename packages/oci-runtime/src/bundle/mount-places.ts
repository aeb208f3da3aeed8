import { isUtf8 } from "node:buffer";
import { readlinkSync } from "node:fs";
import { isSystemError } from "@kip/base";
import type { ContainerMount } from "../contract/container-spec.ts";
import { RuntimeError } from "../errors.ts";

/** Most links on one path, the same as in runc. The kernel's own limit is 40. */
const maxLinks = 255;
/** Most path components after the first link of a path. 255 links of 4096 bytes could have half a million. */
const maxLinkSteps = 1024;
/** Folders that crun always mounts over. */
const ownPlaces = ["/dev", "/proc", "/sys"];

/** A component of the path to a destination, with links resolved. */
interface Place {
  readonly path: string;
  /** Whether a mount is here or on a parent. */
  readonly isMounted: boolean;
}

/**
 * Resolves the image's links in the destinations of a container's mounts, relative to the image's root and never outside it.
 * crun also follows links, but refuses one with a missing target, such as `/var/run/secrets` when `/var/run` points to a `/run`
 * that the image lacks. runc creates the target folder, and so does this.
 *
 * Nothing may be running in the root file system yet. Paths below another mount's destination are left to crun, because the
 * volume there may change at any time.
 *
 * @throws {RuntimeError} `CONTAINER_CREATE_FAILED` for circular links
 */
export function resolveMounts(
  rootfs: string,
  mounts: readonly ContainerMount[],
): readonly ContainerMount[] {
  const places = new Set(ownPlaces);
  return mounts
    .toSorted((a, b) => depth(a.destination) - depth(b.destination))
    .map((mount) => {
      const destination = resolveInRoot(rootfs, mount.destination, { mounted: places });
      places.add(destination);
      return { ...mount, destination };
    });
}

/**
 * Where a mount would go in an image with such links, if nothing else is mounted there. Undefined if a link on the path has a
 * target that is not valid text, which Linux allows. It could lead anywhere in the image.
 *
 * @throws {RuntimeError} `CONTAINER_CREATE_FAILED` for circular links
 */
export function mountPlace(rootfs: string, destination: string): string | undefined {
  let isKnown = true;
  const place = resolveInRoot(rootfs, destination, {
    mounted: new Set(ownPlaces),
    onUnreadable: () => (isKnown = false),
  });
  return isKnown ? place : undefined;
}

/** Options for following links. */
interface Following {
  /** Links at these paths are hidden by mounts. */
  readonly mounted: ReadonlySet<string>;
  /** Called for a link whose target is not valid text. It is then treated as a folder. */
  readonly onUnreadable?: () => void;
}

function resolveInRoot(rootfs: string, file: string, { mounted, onUnreadable }: Following): string {
  const left = stepsOf(file).toReversed();
  let steps: Place[] = [];
  let links = 0;
  let linkSteps = 0;
  for (let step = left.pop(); step !== undefined; step = left.pop()) {
    if (links > 0 && ++linkSteps > maxLinkSteps) throw tooManyLinks(file);
    if (step === "..") {
      steps.pop();
      continue;
    }
    const parent = steps.at(-1);
    const path = `${parent?.path ?? ""}/${step}`;
    const isMounted = parent?.isMounted === true || mounted.has(path);
    const target = isMounted ? undefined : linkTarget(`${rootfs}${path}`, onUnreadable);
    if (target === undefined) {
      steps.push({ path, isMounted });
      continue;
    }
    if (++links > maxLinks) throw tooManyLinks(file);
    if (target.startsWith("/")) steps = [];
    left.push(...stepsOf(target).toReversed());
  }
  return steps.at(-1)?.path ?? "/";
}

/** The link's target. Undefined if the path is not a link, does not exist, or has a target that is not valid text. */
function linkTarget(place: string, onUnreadable?: () => void): string | undefined {
  try {
    const target = readlinkSync(place, { encoding: "buffer" });
    if (isUtf8(target)) return target.toString("utf8");
    onUnreadable?.();
    return undefined;
  } catch (error) {
    if (isSystemError(error, "EINVAL", "ENOENT", "ENOTDIR", "ENAMETOOLONG")) return undefined;
    throw error;
  }
}

function stepsOf(path: string): string[] {
  return path.split("/").filter((step) => step !== "" && step !== ".");
}

function depth(path: string): number {
  return stepsOf(path).length;
}

function tooManyLinks(destination: string): RuntimeError {
  return new RuntimeError(
    "CONTAINER_CREATE_FAILED",
    `Cannot mount at "${destination}": the image has too many links on the way to it`,
    { remedy: "Mount at another path, or correct the links in the image" },
  );
}
