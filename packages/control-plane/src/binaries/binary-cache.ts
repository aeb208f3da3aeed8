import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdir, open, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { decode } from "@kip/base";
import { readIfPresent, writeWhole } from "../host/files.ts";
import { binariesIn, programNames, type Binaries, type ProgramName } from "./pinned-version.ts";

/** Where a version of the programs is kept, and for which machine. */
export interface CacheEntry {
  readonly directory: string;
  readonly kubernetes: string;
  readonly etcd: string;
}

const platform = `${process.platform}/${process.arch}`;
const manifestDecoder = decode.object({
  kubernetes: decode.string,
  etcd: decode.string,
  platform: decode.string,
  programs: decode.map(
    decode.object({ sha256: decode.string, size: decode.number, mtimeMs: decode.number }),
  ),
});
type Manifest = decode.Decoded<typeof manifestDecoder>;

/**
 * The programs of a cache entry if all are there and whole: by size and time as its manifest has
 * them, which is written last; by digest where only the time differs (a cache that was copied).
 */
export async function readCache(entry: CacheEntry): Promise<Binaries | undefined> {
  const manifest = parse(await readIfPresent(manifestPath(entry)));
  if (
    manifest?.kubernetes !== entry.kubernetes ||
    manifest.etcd !== entry.etcd ||
    manifest.platform !== platform
  )
    return undefined;
  let isCopied = false;
  for (const name of programNames) {
    const state = await compare(join(entry.directory, name), manifest.programs[name]);
    if (state === "different") return undefined;
    isCopied ||= state === "copied";
  }
  if (isCopied) await writeManifest(entry);
  return binariesIn(entry.directory, entry.kubernetes);
}

/**
 * Moves complete programs into a cache entry, each under its final name in one step, and the
 * manifest last: readers see either the whole entry or none.
 *
 * @param sources path of each program, on the same file system
 */
export async function writeCache(
  entry: CacheEntry,
  sources: Readonly<Record<ProgramName, string>>,
): Promise<Binaries> {
  await mkdir(entry.directory, { recursive: true, mode: 0o755 });
  await rm(manifestPath(entry), { force: true });
  for (const name of programNames) {
    await using file = await open(sources[name], "r");
    await file.chmod(0o755);
    await file.sync();
    await rename(sources[name], join(entry.directory, name));
  }
  await writeManifest(entry);
  return binariesIn(entry.directory, entry.kubernetes);
}

async function writeManifest(entry: CacheEntry): Promise<void> {
  const programs: Record<string, Manifest["programs"][string]> = {};
  for (const name of programNames) {
    const path = join(entry.directory, name);
    const { size, mtimeMs } = await stat(path);
    programs[name] = { sha256: await sha256(path), size, mtimeMs };
  }
  const manifest = { kubernetes: entry.kubernetes, etcd: entry.etcd, platform, programs };
  await writeWhole(manifestPath(entry), `${JSON.stringify(manifest, undefined, 2)}\n`, {
    mode: 0o644,
  });
}

/** SHA-256 of a file, in hexadecimal. */
export async function sha256(path: string): Promise<string> {
  const hash = createHash("sha256");
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
  return (await sha256(path)) === expected.sha256 ? "copied" : "different";
}

function manifestPath(entry: CacheEntry): string {
  return join(entry.directory, "manifest.json");
}

function parse(text: string | undefined): Manifest | undefined {
  if (text === undefined) return undefined;
  try {
    return manifestDecoder(JSON.parse(text), "");
  } catch {
    return undefined; // another release's form: as good as none
  }
}
