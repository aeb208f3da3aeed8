/** Versions that Kip runs and tests with; `tools/kubernetes/go.mod` pins the same ones. */
export const pinned = { kubernetes: "v1.34.10", etcd: "v3.6.16" } as const;

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

/** The programs of one Kubernetes version, ready to run. */
export interface Binaries {
  /** Kubernetes version, for example `v1.34.10`. */
  readonly version: string;
  /** Directory that holds all of them. */
  readonly directory: string;
  /** Absolute path of each. */
  readonly paths: Readonly<Record<ProgramName, string>>;
}

/** The programs in a directory; whether they are there is the caller's to know. */
export function binariesIn(directory: string, version: string = pinned.kubernetes): Binaries {
  const entries = programNames.map((name) => [name, `${directory}/${name}`]);
  return {
    version,
    directory,
    paths: Object.fromEntries(entries) as Record<ProgramName, string>, // one entry per name
  };
}
