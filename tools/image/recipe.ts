// The recipes of the container images: deploy/images/kip.json, the changes for other images, and the lock of the Debian
// packages.
import { readFileSync } from "node:fs";
import path from "node:path";
import { decode } from "@kip/base";

/** The repository. */
export const root = path.join(import.meta.dirname, "../..");

/** Architectures in the naming of OCI images, Debian and Go. */
export const architectures = ["amd64", "arm64"] as const;

export type Architecture = (typeof architectures)[number];

/** Names of the images. */
export const imageNames = ["kip", "virtual-kubelet"] as const;

export type ImageName = (typeof imageNames)[number];

const decodeNode = decode.object({ package: decode.string, integrity: decode.string });

const decodeRecipe = decode.object({
  node: decode.object({ version: decode.string, amd64: decodeNode, arm64: decodeNode }),
  /** Names of Debian packages. Their dependencies are not added. */
  debian: decode.list(decode.string),
  /** Folder of the workspace that the image runs. */
  application: decode.string,
  /** Workspaces that only `kip up` loads. */
  leftOut: decode.list(decode.string),
  /** User and group of the process. */
  user: decode.number,
});

/** Replacements for another image. */
const decodeOwn = decode.object({
  application: decode.string,
  leftOut: decode.list(decode.string),
});

export type ImageRecipe = decode.Decoded<typeof decodeRecipe>;

const decodePackage = decode.object({
  name: decode.string,
  version: decode.string,
  sha256: decode.string,
});

/** One version of a Debian package for one architecture. */
export type LockedPackage = decode.Decoded<typeof decodePackage>;

const decodeLock = decode.object({
  suite: decode.string,
  /** Time of a snapshot on snapshot.debian.org that has all of them, in case Debian's mirrors remove them. */
  snapshot: decode.string,
  amd64: decode.list(decodePackage),
  arm64: decode.list(decodePackage),
});

export type DebianLock = decode.Decoded<typeof decodeLock>;

export const lockFile = path.join(root, "deploy/images/debian-packages.json");

/** Reads a recipe. Other images' recipes change that of kip. @throws {DecodeError} */
export function readRecipe(name: ImageName = "kip"): ImageRecipe {
  const read = (each: ImageName): unknown =>
    readJson(path.join(root, `deploy/images/${each}.json`));
  const kip = decodeRecipe(read("kip"), "kip.json");
  return name === "kip" ? kip : { ...kip, ...decodeOwn(read(name), `${name}.json`) };
}

/** Reads the lock. @throws {DecodeError} */
export function readDebianLock(): DebianLock {
  return decodeLock(readJson(lockFile), "debian-packages.json");
}

function readJson(file: string): unknown {
  return JSON.parse(readFileSync(file, "utf8"));
}
