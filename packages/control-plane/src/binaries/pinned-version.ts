import { ControlPlaneError } from "../errors.ts";

/** Versions of the programs, and the folders below the repository's `tools` whose go.mod files pin the same versions. */
export interface PinnedRelease {
  readonly kubernetes: string;
  readonly etcd: string;
  readonly modules: string;
  /** Folder for Kubernetes' own specs. */
  readonly specModules: string;
}

/** The release that Kip runs and is tested with. */
export const pinned = {
  kubernetes: "v1.34.10",
  etcd: "v3.6.16",
  modules: "kubernetes",
  specModules: "conformance/modules",
} as const satisfies PinnedRelease;

/** The newest stable release, for the optional matrix of tests. */
export const newest = {
  kubernetes: "v1.36.3",
  etcd: "v3.6.16",
  modules: "kubernetes/newest",
  specModules: "conformance/modules/newest",
} as const satisfies PinnedRelease;

/**
 * The release with that Kubernetes version, or `newest`.
 *
 * @throws {ControlPlaneError} `KUBERNETES_UNOBTAINABLE`
 */
export function findRelease(version: string): PinnedRelease {
  if (version === "newest") return newest;
  const found = [pinned, newest].find(({ kubernetes }) => kubernetes === version);
  if (found) return found;
  throw new ControlPlaneError("KUBERNETES_UNOBTAINABLE", `Cannot obtain Kubernetes "${version}"`, {
    remedy: `Use ${pinned.kubernetes} or ${newest.kubernetes} ("newest"), or a directory of programs`,
  });
}

/** Programs of a control plane, by file name. */
export const programNames = [
  "etcd",
  "kube-apiserver",
  "kube-controller-manager",
  "kube-scheduler",
  "kubectl",
] as const;

/** One program of a control plane. */
export type ProgramName = (typeof programNames)[number];

/** The programs of a Kubernetes version, ready to run. */
export interface Binaries {
  /** Kubernetes version, for example `v1.34.10`. */
  readonly version: string;
  /** Directory that holds all of them. */
  readonly directory: string;
  /** Absolute path of each program. */
  readonly paths: Readonly<Record<ProgramName, string>>;
}

/** The programs in a directory. Does not check that they exist. */
export function binariesIn(directory: string, version: string = pinned.kubernetes): Binaries {
  const entries = programNames.map((name) => [name, `${directory}/${name}`]);
  return {
    version,
    directory,
    paths: Object.fromEntries(entries) as Record<ProgramName, string>, // one entry per name
  };
}
