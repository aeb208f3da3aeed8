import { mkdir, rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import {
  acquireFileLock,
  errorText,
  silentLogger,
  systemClock,
  type Clock,
  type Logger,
} from "@kip/base";
import { ControlPlaneError } from "../errors.ts";
import { readCache, writeCache, type CacheEntry } from "./binary-cache.ts";
import { buildFromModules } from "./module-build.ts";
import { pinned, type Binaries, type PinnedRelease, type ProgramName } from "./pinned-version.ts";
import { releaseDigests, type ReleaseDigests } from "./release-digests.ts";
import { downloadRelease, type DownloadOptions } from "./release-download.ts";
import { readUserDirectory } from "./user-directory.ts";

/** Options of {@link obtainBinaries}. */
export interface ObtainOptions {
  /** Kept between runs; the programs go to `kubernetes/<version>/` in it. */
  readonly cacheDir: string;
  /** Which release. @default {@link pinned} */
  readonly release?: PinnedRelease;
  /** A directory of the user's with all programs; nothing else is tried then. @default none */
  readonly userDir?: string | undefined;
  /** Gets a line for each step that takes time, without line end. */
  readonly onProgress?: (line: string) => void;
  readonly logger?: Logger;
  readonly clock?: Clock;
  readonly signal?: AbortSignal | undefined;
  /** Where downloads find their proxies, as `curl` does: HTTP_PROXY, HTTPS_PROXY, NO_PROXY. @default no proxy */
  readonly env?: NodeJS.ProcessEnv | undefined;
  /** Whether the official release may be downloaded. @default true */
  readonly allowDownload?: boolean;
  /** The go command. @default "go" */
  readonly go?: string;
  /** Directory of the go.mod that pins the modules. @default the release's */
  readonly modulesDir?: string;
  /** Digests of the release, by architecture. @default those of the pinned release, {@link releaseDigests} */
  readonly digests?: Readonly<Partial<Record<string, ReleaseDigests>>>;
  /** Where the release is downloaded from. @default the projects' own sites */
  readonly sites?: NonNullable<DownloadOptions["sites"]>;
}

type Sources = Readonly<Record<ProgramName, string>>;
const goArchitectures: Readonly<Record<string, string>> = { x64: "amd64", arm64: "arm64" };

/**
 * The programs of a Kubernetes version: from a directory the user names, else the cache,
 * else the official release (checked against pinned digests), else built from pinned Go modules.
 *
 * May be called by several processes at once: one works, the others wait for it. May be interrupted
 * at any point: the next call goes on from there, and no program is ever half written.
 *
 * @throws {ControlPlaneError} `KUBERNETES_PROGRAMS_MISSING` if the user's directory lacks one
 * @throws {ControlPlaneError} `KUBERNETES_UNOBTAINABLE` if there is neither download nor Go toolchain
 * @throws {ControlPlaneError} `KUBERNETES_BUILD_FAILED`, `DISK_TOO_SMALL`, `DIGEST_MISMATCH`
 */
export async function obtainBinaries(options: ObtainOptions): Promise<Binaries> {
  if (options.userDir !== undefined) return await readUserDirectory(options.userDir);
  const { kubernetes, etcd } = options.release ?? pinned;
  const root = join(resolve(options.cacheDir), "kubernetes");
  const entry: CacheEntry = { kubernetes, etcd, directory: join(root, kubernetes) };
  const cached = await readCache(entry);
  if (cached) return cached;

  await mkdir(root, { recursive: true });
  const lockPath = join(root, `${kubernetes}.lock`);
  await using _lock = await acquireFileLock(lockPath, {
    onWait: () => options.onProgress?.("Waiting for another process that obtains Kubernetes"),
    signal: options.signal,
  });
  // The holder of the lock before us may have done it all.
  return (await readCache(entry)) ?? (await obtainAndCache(entry, options));
}

async function obtainAndCache(entry: CacheEntry, options: ObtainOptions): Promise<Binaries> {
  const clock = options.clock ?? systemClock;
  const begin = clock.monotonic();
  const work = `${entry.directory}.work`;
  const sources = (await tryDownload(work, options)) ?? (await build(work, options, clock));
  const binaries = await writeCache(entry, sources);
  await rm(work, { recursive: true, force: true });
  const durationMs = Math.round(clock.monotonic() - begin);
  options.onProgress?.(`Kubernetes ${entry.kubernetes} is ready after ${duration(durationMs)}`);
  (options.logger ?? silentLogger).info("Kubernetes obtained", {
    component: "control-plane",
    durationMs,
    directory: entry.directory,
  });
  return binaries;
}

async function tryDownload(work: string, options: ObtainOptions): Promise<Sources | undefined> {
  const architecture = goArchitectures[process.arch];
  const { release = pinned } = options;
  const known = options.digests ?? (release === pinned ? releaseDigests : {});
  const digests = architecture && known[architecture];
  if (!digests || options.allowDownload === false) return undefined;
  const directory = join(work, "download");
  try {
    return await downloadRelease({
      kubernetes: release.kubernetes,
      etcd: release.etcd,
      architecture,
      digests,
      directory,
      onProgress: options.onProgress ?? (() => {}),
      env: options.env,
      signal: options.signal,
      sites: options.sites,
    });
  } catch (error) {
    await rm(directory, { recursive: true, force: true });
    if (!ControlPlaneError.is(error, "DOWNLOAD_FAILED")) throw error;
    options.onProgress?.(`${errorText(error)}; building it instead`);
    return undefined;
  }
}

async function build(work: string, options: ObtainOptions, clock: Clock): Promise<Sources> {
  const { kubernetes, modules } = options.release ?? pinned;
  const tools = join(import.meta.dirname, "../../../../tools");
  try {
    return await buildFromModules({
      kubernetes,
      modulesDir: options.modulesDir ?? join(tools, modules),
      go: options.go ?? "go",
      directory: join(work, "build"),
      clock,
      onProgress: options.onProgress ?? (() => {}),
      signal: options.signal,
    });
  } catch (error) {
    if (ControlPlaneError.is(error, "GO_MISSING")) throw unobtainable(kubernetes, error);
    if (!ControlPlaneError.is(error, "GO_FAILED")) throw error;
    throw new ControlPlaneError(
      "KUBERNETES_BUILD_FAILED",
      `Cannot build Kubernetes ${kubernetes}: ${errorText(error)}`,
      { cause: error, remedy: "Try again: it goes on where it stopped. Go needs its module proxy" },
    );
  }
}

function unobtainable(version: string, cause: unknown): ControlPlaneError {
  return new ControlPlaneError(
    "KUBERNETES_UNOBTAINABLE",
    `Cannot obtain Kubernetes ${version}: ` +
      "there is no release to download here, and no Go toolchain to build it with",
    {
      cause,
      remedy: "Install Go 1.26 or newer, or name a directory with the programs (--binaries-dir)",
    },
  );
}

function duration(ms: number): string {
  const seconds = Math.round(ms / 1000);
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}
