import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdir, open, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { decode } from "@kip/base";
import { readIfPresent, writeWhole } from "../host/files.ts";

/** A cache folder for programs that are obtained together. */
export interface CacheEntry<Name extends string> {
  /** Their name and version: "Kubernetes v1.34.10". */
  readonly title: string;
  readonly directory: string;
  /** The versions they were made from. An entry with other versions counts as missing. */
  readonly versions: Readonly<Partial<Record<ProjectName, string>>>;
  /** File names of the programs. */
  readonly programs: readonly Name[];
}

const projects = ["kubernetes", "etcd", "coredns", "specs", "helm"] as const;
type ProjectName = (typeof projects)[number];

const platform = `${process.platform}/${process.arch}`;
const manifestDecoder = decode.object({
  kubernetes: decode.optional(decode.string),
  etcd: decode.optional(decode.string),
  coredns: decode.optional(decode.string),
  specs: decode.optional(decode.string),
  helm: decode.optional(decode.string),
  platform: decode.string,
  programs: decode.map(
    decode.object({ sha256: decode.string, size: decode.number, mtimeMs: decode.number }),
  ),
});
type Manifest = decode.Decoded<typeof manifestDecoder>;

/**
 * Whether all programs of a cache entry exist and are complete. Compares their sizes and times with the manifest, which is
 * written last. If only a time differs, as in a copied cache, compares the digest.
 */
export async function isCached(entry: CacheEntry<string>): Promise<boolean> {
  const manifest = parse(await readIfPresent(manifestPath(entry)));
  if (manifest?.platform !== platform) return false;
  for (const project of projects) if (manifest[project] !== entry.versions[project]) return false;
  let isCopied = false;
  for (const name of entry.programs) {
    const state = await compare(join(entry.directory, name), manifest.programs[name]);
    if (state === "different") return false;
    isCopied ||= state === "copied";
  }
  if (isCopied) await writeManifest(entry);
  return true;
}

/**
 * Moves complete programs into a cache entry, each under its final name in one step, and writes the manifest last. So readers
 * see either the whole entry or nothing.
 *
 * @param sources path of each program, on the same file system
 */
export async function writeCache<Name extends string>(
  entry: CacheEntry<Name>,
  sources: Readonly<Record<Name, string>>,
): Promise<void> {
  await mkdir(entry.directory, { recursive: true, mode: 0o755 });
  await rm(manifestPath(entry), { force: true });
  for (const name of entry.programs) {
    await using file = await open(sources[name], "r");
    await file.chmod(0o755);
    await file.sync();
    await rename(sources[name], join(entry.directory, name));
  }
  await writeManifest(entry);
}

async function writeManifest(entry: CacheEntry<string>): Promise<void> {
  const programs: Record<string, Manifest["programs"][string]> = {};
  for (const name of entry.programs) {
    const path = join(entry.directory, name);
    const { size, mtimeMs } = await stat(path);
    programs[name] = { sha256: await fileDigest(path), size, mtimeMs };
  }
  const manifest = { ...entry.versions, platform, programs };
  await writeWhole(manifestPath(entry), `${JSON.stringify(manifest, undefined, 2)}\n`, {
    mode: 0o644,
  });
}

/** Digest of a file, hexadecimal. */
export async function fileDigest(
  path: string,
  algorithm: "sha256" | "sha512" = "sha256",
): Promise<string> {
  const hash = createHash(algorithm);
  await pipeline(createReadStream(path), hash);
  return hash.digest("hex");
}

async function compare(
  path: string,
  expected: Manifest["programs"][string] | undefined,
): Promise<"same" | "copied" | "different"> {
  const found = await stat(path).catch(() => undefined);
  if (!found || found.size !== expected?.size) return "different";
  if (found.mtimeMs === expected.mtimeMs) return "same";
  return (await fileDigest(path)) === expected.sha256 ? "copied" : "different";
}

function manifestPath(entry: CacheEntry<string>): string {
  return join(entry.directory, "manifest.json");
}

function parse(text: string | undefined): Manifest | undefined {
  if (text === undefined) return undefined;
  try {
    return manifestDecoder(JSON.parse(text), "");
  } catch {
    return undefined; // the format of another release, which counts as missing
  }
}
