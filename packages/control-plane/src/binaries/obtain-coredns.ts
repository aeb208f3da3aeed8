import { access, constants } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { CacheEntry } from "./binary-cache.ts";
import { buildProject, obtainCached, type ObtainSettings } from "./obtain-cached.ts";
import { releaseDigests } from "./release-digests.ts";
import { downloadCoredns, tryDownload } from "./release-download.ts";
import type { ReleaseSites } from "./release-sites.ts";

/** Version of CoreDNS. `tools/coredns/go.mod` pins the same version. */
export const corednsVersion = "v1.14.7";

/** Options of {@link obtainCoredns}. */
export interface ObtainCorednsOptions extends ObtainSettings {
  /** Cache directory. The program is in `coredns/<version>/` below it. */
  readonly cacheDir: string;
  /** A directory of the user's. Its `coredns` is used if it exists. @default none */
  readonly userDir?: string | undefined;
  /** The sites for downloading the official release. @default none: it is not downloaded */
  readonly sites?: ReleaseSites | undefined;
  /** Directory of the go.mod that pins the modules. @default the repository's */
  readonly modulesDir?: string | undefined;
}

/** Object files of the build (0.6 GB) and the program, rounded up. */
const neededBytes = 1e9;

/**
 * Path of CoreDNS, the cluster's DNS server. Sources, in order: a directory that the user names; the cache; the official
 * release; a build from pinned Go modules. Like `obtainBinaries`, it may be called by several processes at once, and
 * interrupted.
 *
 * @throws {ControlPlaneError} `COREDNS_UNOBTAINABLE` if neither a download nor a Go toolchain is available
 * @throws {ControlPlaneError} `COREDNS_BUILD_FAILED`, `DISK_TOO_SMALL`, `DIGEST_MISMATCH`
 */
export async function obtainCoredns(options: ObtainCorednsOptions): Promise<string> {
  const own = options.userDir === undefined ? undefined : join(resolve(options.userDir), "coredns");
  if (own !== undefined && (await isExecutable(own))) return own;
  const entry: CacheEntry<"coredns"> = {
    title: `CoreDNS ${corednsVersion}`,
    directory: join(resolve(options.cacheDir), "coredns", corednsVersion),
    versions: { coredns: corednsVersion },
    programs: ["coredns"],
  };
  const make = async (work: string) =>
    (await tryDownload(
      async (download) => ({ coredns: await downloadCoredns(corednsVersion, download) }),
      options.sites,
      { work, digests: releaseDigests, settings: options },
    )) ?? (await build(work, entry.title, options));
  await obtainCached({ name: "CoreDNS", entry, make }, options);
  return join(entry.directory, "coredns");
}

const noWay = "there is no release to download here, and no Go toolchain to build it with";

async function build(work: string, title: string, options: ObtainCorednsOptions) {
  const modulesDir = join(import.meta.dirname, "../../../../tools/coredns");
  return await buildProject(
    {
      sources: {
        title,
        mains: { coredns: { path: "coredns.local", file: "coredns.local" } },
        variables: {},
        neededBytes,
        duration: "2 minutes on 2 cores",
      },
      modulesDir: options.modulesDir ?? modulesDir,
      work,
      failed: "COREDNS_BUILD_FAILED",
      unobtainable: { code: "COREDNS_UNOBTAINABLE", reason: noWay },
      otherwise: "put the program coredns into a directory (--binaries-dir)",
    },
    options,
  );
}

async function isExecutable(path: string): Promise<boolean> {
  return await access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
}
