import { isUtf8 } from "node:buffer";
import { readlinkSync } from "node:fs";
import { isSystemError } from "@kip/base";
import type { ContainerMount } from "../contract/container-spec.ts";
import { RuntimeError } from "../errors.ts";

/** As many links as runc follows on one way; the kernel itself gives up after 40. */
const maxLinks = 255;
/** Steps of one way from its first link on: 255 links of 4096 bytes would be half a million. */
const maxLinkSteps = 1024;
/** What crun mounts itself, over whatever the image has there. */
const ownPlaces = ["/dev", "/proc", "/sys"];

/** A step on the way to a destination, without links. */
interface Place {
  readonly path: string;
  /** Whether a mount is here or above. */
  readonly isMounted: boolean;
}

/**
 * The mounts of a container with the links of the image in their destinations followed, from the root of the image and
 * never above it. crun follows links as well but refuses a path through one that leads to nothing, such as
 * `/var/run/secrets` where `/var/run` points to a `/run` that the image lacks; runc makes the folder that it points to.
 *
 * Nothing may run in the root file system yet. What is below another mount's destination is left to crun, as the volume
 * there may change at any time.
 *
 * @throws {RuntimeError} `CONTAINER_CREATE_FAILED` for links in a circle
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
 * Where something is mounted for a container whose image has such links, if nothing else is mounted there. Undefined if a link
 * on the way has a target that is not text, as Linux allows: it may lead anywhere in the image.
 *
 * @throws {RuntimeError} `CONTAINER_CREATE_FAILED` for links in a circle
 */
export function mountPlace(rootfs: string, destination: string): string | undefined {
  let isKnown = true;
  const place = resolveInRoot(rootfs, destination, {
    mounted: new Set(ownPlaces),
    onUnreadable: () => (isKnown = false),
  });
  return isKnown ? place : undefined;
}

/** How links are followed. */
interface Following {
  /** Links in these places are hidden. */
  readonly mounted: ReadonlySet<string>;
  /** Called for a link whose target JavaScript's text cannot hold; it then counts as what it is not, a folder. */
  readonly onUnreadable?: () => void;
}

function resolveInRoot(rootfs: string, file: string, { mounted, onUnreadable }: Following): string {
  const left = stepsOf(file).toReversed();
  let way: Place[] = [];
  let links = 0;
  let linkSteps = 0;
  for (let step = left.pop(); step !== undefined; step = left.pop()) {
    if (links > 0 && ++linkSteps > maxLinkSteps) throw tooManyLinks(file);
    if (step === "..") {
      way.pop();
      continue;
    }
    const parent = way.at(-1);
    const path = `${parent?.path ?? ""}/${step}`;
    const isMounted = parent?.isMounted === true || mounted.has(path);
    const target = isMounted ? undefined : linkTarget(`${rootfs}${path}`, onUnreadable);
    if (target === undefined) {
      way.push({ path, isMounted });
      continue;
    }
    if (++links > maxLinks) throw tooManyLinks(file);
    if (target.startsWith("/")) way = [];
    left.push(...stepsOf(target).toReversed());
  }
  return way.at(-1)?.path ?? "/";
}

/** Undefined for what is not a link, or is not there; and for a target that JavaScript's text cannot hold. */
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
