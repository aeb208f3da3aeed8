import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { errorText, runCommand, systemClock } from "@kip/base";
import { ControlPlaneError } from "../errors.ts";
import { cannotDownload, fetchFile, type FetchSettings } from "./fetch-file.ts";
import type { ObtainSettings } from "./obtain-cached.ts";
import type { PinnedRelease, ProgramName } from "./pinned-version.ts";
import { fetchChecksum } from "./published-checksum.ts";
import type { ReleaseDigests } from "./release-digests.ts";
import type { ReleaseSites } from "./release-sites.ts";

/** Target folder and architecture of a download. */
export interface DownloadOptions extends FetchSettings {
  /** Architecture in Go's spelling. */
  readonly architecture: string;
  /** @default none: the published checksums are used */
  readonly digests: ReleaseDigests | undefined;
  /** Directory of this download, not shared. A download resumes from the files of an interrupted one. */
  readonly directory: string;
}

const goArchitectures: Readonly<Record<string, string>> = { x64: "amd64", arm64: "arm64" };

/** How each program reports its version. */
const versionArguments: Readonly<Record<ProgramName | "coredns", readonly string[]>> = {
  etcd: ["--version"],
  "kube-apiserver": ["--version"],
  "kube-controller-manager": ["--version"],
  "kube-scheduler": ["--version"],
  kubectl: ["version", "--client", "--kubeconfig=/dev/null"],
  coredns: ["-version"],
};

/**
 * Runs a download if the sites are reachable. Returns `undefined` if the programs must be built instead, and reports the reason
 * in a line.
 *
 * @param work folder of this cache entry
 * @param pinnedDigests digests of the release, unless the sites have others
 * @throws {ControlPlaneError} `DIGEST_MISMATCH`: wrong files never lead to a build
 */
export async function tryDownload<T>(
  download: (options: DownloadOptions) => Promise<T>,
  sites: ReleaseSites | undefined,
  { work, digests, settings }: TryDownloadOptions,
): Promise<T | undefined> {
  const { onProgress = () => {}, clock = systemClock, signal } = settings;
  const architecture = goArchitectures[process.arch];
  if (sites === undefined || architecture === undefined) return undefined;
  if (!(await sites.canReach(onProgress, signal))) return undefined;
  const directory = join(work, "download");
  await mkdir(directory, { recursive: true });
  const known = (sites.digests ?? digests)[architecture];
  try {
    return await download({
      sites,
      clock,
      onProgress,
      signal,
      architecture,
      directory,
      digests: known,
    });
  } catch (error) {
    if (!ControlPlaneError.is(error, "DOWNLOAD_FAILED")) throw error;
    onProgress(`${errorText(error)}; building instead`);
    return undefined;
  }
}

interface TryDownloadOptions {
  readonly work: string;
  readonly digests: Readonly<Partial<Record<string, ReleaseDigests>>>;
  readonly settings: ObtainSettings;
}

/**
 * Downloads the programs of a Kubernetes release, verifies each, and runs each to check its version.
 *
 * @returns path of each program in the directory
 * @throws {ControlPlaneError} `DOWNLOAD_FAILED`, retryable, if a file cannot be downloaded or does not run here
 * @throws {ControlPlaneError} `DIGEST_MISMATCH` if a file is not the expected one; never retryable
 */
export async function downloadKubernetes(
  { kubernetes, etcd }: PinnedRelease,
  options: DownloadOptions,
): Promise<Readonly<Record<ProgramName, string>>> {
  const { architecture, digests, directory, sites } = options;
  const archiveName = `etcd-${etcd}-linux-${architecture}`;
  const archive = `${sites.urls.etcd}/${etcd}/${archiveName}.tar.gz`;
  const archivePath = await fetchChecked(archive, {
    ...options,
    name: "etcd.tar.gz",
    pinned: digests?.etcdArchive,
    lists: [`${sites.urls.etcd}/${etcd}/SHA256SUMS`],
  });
  await unpack(archivePath, directory, ["--strip-components=1", `${archiveName}/etcd`]);
  const program = async (name: keyof ReleaseDigests["kubernetes"]): Promise<string> => {
    const url = `${sites.urls.kubernetes}/${kubernetes}/bin/linux/${architecture}/${name}`;
    const pinned = digests?.kubernetes[name];
    const lists = [`${url}.sha256`, `${url}.sha512`];
    const path = await fetchChecked(url, { ...options, name, pinned, lists });
    await runCommand("chmod", ["0755", path]);
    await requireVersion(path, name, kubernetes);
    return path;
  };
  await requireVersion(join(directory, "etcd"), "etcd", etcd);
  return {
    etcd: join(directory, "etcd"),
    "kube-apiserver": await program("kube-apiserver"),
    "kube-controller-manager": await program("kube-controller-manager"),
    "kube-scheduler": await program("kube-scheduler"),
    kubectl: await program("kubectl"),
  };
}

/**
 * Downloads a release of CoreDNS in the same way as {@link downloadKubernetes}.
 *
 * @returns path of the program
 */
export async function downloadCoredns(version: string, options: DownloadOptions): Promise<string> {
  const { architecture, digests, directory, sites } = options;
  const file = `coredns_${version.replace(/^v/, "")}_linux_${architecture}.tgz`;
  const url = `${sites.urls.coredns}/${version}/${file}`;
  const archive = await fetchChecked(url, {
    ...options,
    name: "coredns.tgz",
    pinned: digests?.corednsArchive,
    lists: [`${url}.sha256`],
  });
  await unpack(archive, directory, ["coredns"]);
  const path = join(directory, "coredns");
  await requireVersion(path, "coredns", version);
  return path;
}

interface CheckedFile extends DownloadOptions {
  readonly name: string;
  readonly pinned: string | undefined;
  /** URLs of its checksum files, in order of preference. */
  readonly lists: readonly string[];
}

async function fetchChecked(url: string, options: CheckedFile): Promise<string> {
  const { pinned, lists } = options;
  const path = join(options.directory, options.name);
  const digest = pinned ?? (await fetchChecksum(url, lists, options));
  const digestOrigin = pinned === undefined ? "the published one" : "the pinned one";
  await fetchFile({ ...options, url, path, digest, digestOrigin });
  return path;
}

async function unpack(archive: string, into: string, members: readonly string[]): Promise<void> {
  await runCommand("tar", ["-xzf", archive, "-C", into, "--no-same-owner", ...members]);
}

/** Checks a program's version by running it. A site could offer another version under the same file name. */
async function requireVersion(
  path: string,
  name: ProgramName | "coredns",
  version: string,
): Promise<void> {
  const { stdout } = await runCommand(path, versionArguments[name]).catch((error: unknown) => {
    throw cannotDownload(name, `it does not run here: ${errorText(error)}`, error);
  });
  const found = /\d+\.\d+\.\d+[\w.+-]*/.exec(stdout)?.[0];
  if (found === version.replace(/^v/, "")) return;
  throw new ControlPlaneError("DIGEST_MISMATCH", `Cannot use the downloaded ${name}`, {
    remedy: "Its site has another version there; name a directory of programs you trust",
    facts: { expected: version, found },
  });
}
