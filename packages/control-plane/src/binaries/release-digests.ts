/** SHA-256 of the files of a release, in hexadecimal. */
export interface ReleaseDigests {
  /** Of each program, as the Kubernetes project publishes it. */
  readonly kubernetes: Readonly<
    Record<"kube-apiserver" | "kube-controller-manager" | "kube-scheduler" | "kubectl", string>
  >;
  /** Of the archive that the etcd project publishes. */
  readonly etcdArchive: string;
}

/**
 * Digests of the pinned release by architecture, in Go's spelling (`amd64`, `arm64`). A release is
 * downloaded only where its digests stand here; without them it is built from its modules, whose
 * digests are in `tools/kubernetes/go.sum`. docs/control-plane.md says how to fill this in.
 */
export const releaseDigests: Readonly<Partial<Record<string, ReleaseDigests>>> = {};
