import { join, resolve } from "node:path";
import type { CacheEntry } from "./binary-cache.ts";
import type { ProgramSources } from "./module-build.ts";
import { buildProject, obtainCached, type ObtainSettings } from "./obtain-cached.ts";
import {
  binariesIn,
  pinned,
  programNames,
  type Binaries,
  type PinnedRelease,
  type ProgramName,
} from "./pinned-version.ts";
import { releaseDigests } from "./release-digests.ts";
import { downloadKubernetes, tryDownload } from "./release-download.ts";
import type { ReleaseSites } from "./release-sites.ts";
import { readUserDirectory } from "./user-directory.ts";

/** Options of {@link obtainBinaries}. */
export interface ObtainOptions extends ObtainSettings {
  /** Cache directory. The programs are in `kubernetes/<version>/` below it. */
  readonly cacheDir: string;
  /** The release. @default {@link pinned} */
  readonly release?: PinnedRelease;
  /** A directory of the user's that contains all programs. If given, nothing else is tried. @default none */
  readonly userDir?: string | undefined;
  /** The sites for downloading the official release. @default none: it is not downloaded */
  readonly sites?: ReleaseSites | undefined;
  /** Directory of the go.mod that pins the modules. @default the release's */
  readonly modulesDir?: string;
}

type Sources = Readonly<Record<ProgramName, string>>;
/** The package of each program, by the file name that Go gives it. */
const mains: ProgramSources<ProgramName>["mains"] = {
  etcd: { path: "go.etcd.io/etcd/server/v3", file: "server" },
  "kube-apiserver": { path: "k8s.io/kubernetes/cmd/kube-apiserver", file: "kube-apiserver" },
  "kube-controller-manager": {
    path: "k8s.io/kubernetes/cmd/kube-controller-manager",
    file: "kube-controller-manager",
  },
  "kube-scheduler": { path: "k8s.io/kubernetes/cmd/kube-scheduler", file: "kube-scheduler" },
  kubectl: { path: "k8s.io/kubernetes/cmd/kubectl", file: "kubectl" },
};
/** Object files of the build (3.1 GB) and the programs, rounded up. */
const neededBytes = 4.5e9;

/**
 * Obtains the programs of a Kubernetes version. Sources, in order: a directory that the user names; the cache; the official
 * release, verified with pinned digests or with the checksums that are published over TLS; a build from pinned Go modules.
 *
 * Several processes may call it at once: one works, and the others wait. It may be interrupted at any point. The next call
 * resumes, and no program is ever incomplete.
 *
 * @throws {ControlPlaneError} `KUBERNETES_PROGRAMS_MISSING` if the user's directory lacks one
 * @throws {ControlPlaneError} `KUBERNETES_UNOBTAINABLE` if neither a download nor a Go toolchain is available
 * @throws {ControlPlaneError} `KUBERNETES_BUILD_FAILED`, `DISK_TOO_SMALL`, `DIGEST_MISMATCH`
 */
export async function obtainBinaries(options: ObtainOptions): Promise<Binaries> {
  if (options.userDir !== undefined) return await readUserDirectory(options.userDir);
  const release = options.release ?? pinned;
  const { kubernetes, etcd } = release;
  const entry: CacheEntry<ProgramName> = {
    title: `Kubernetes ${kubernetes}`,
    directory: join(resolve(options.cacheDir), "kubernetes", kubernetes),
    versions: { kubernetes, etcd },
    programs: programNames,
  };
  const digests = release === pinned ? releaseDigests : {};
  const make = async (work: string): Promise<Sources> =>
    (await tryDownload(
      async (download) => await downloadKubernetes(release, download),
      options.sites,
      { work, digests, settings: options },
    )) ?? (await build(work, options));
  await obtainCached({ name: "Kubernetes", entry, make }, options);
  return binariesIn(entry.directory, kubernetes);
}

async function build(work: string, options: ObtainOptions): Promise<Sources> {
  const { kubernetes, modules } = options.release ?? pinned;
  const tools = join(import.meta.dirname, "../../../../tools");
  return await buildProject(
    {
      sources: sourcesOf(kubernetes),
      modulesDir: options.modulesDir ?? join(tools, modules),
      work,
      failed: "KUBERNETES_BUILD_FAILED",
      unobtainable: {
        code: "KUBERNETES_UNOBTAINABLE",
        reason: "there is no release to download here, and no Go toolchain to build it with",
      },
      otherwise: "name a directory with the programs (--binaries-dir)",
    },
    options,
  );
}

function sourcesOf(version: string): ProgramSources<ProgramName> {
  return {
    title: `Kubernetes ${version}`,
    mains,
    variables: versionVariables(version),
    neededBytes,
    duration: "4 minutes on 2 cores",
  };
}

/** The linker variables for the version that programs report, as in upstream's build. */
export function versionVariables(version: string): Readonly<Record<string, string>> {
  const [major = "", minor = ""] = version.replace(/^v/, "").split(".");
  const values = { gitVersion: version, gitMajor: major, gitMinor: minor, gitTreeState: "clean" };
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [`k8s.io/component-base/version.${name}`, value]),
  );
}
