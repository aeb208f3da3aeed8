/** SHA-256 of the files of a release, in hexadecimal. */
export interface ReleaseDigests {
  /** Of each program, as the Kubernetes project publishes it. */
  readonly kubernetes: Readonly<
    Record<"kube-apiserver" | "kube-controller-manager" | "kube-scheduler" | "kubectl", string>
  >;
  /** Of the archive that the etcd project publishes. */
  readonly etcdArchive: string;
  /** Of the archive that the CoreDNS project publishes. */
  readonly corednsArchive: string;
}

/**
 * Digests of the pinned releases by architecture, in Go's spelling (`amd64`, `arm64`). Where they stand here they alone
 * count; elsewhere the checksum files that the projects publish do. docs/control-plane.md says how to fill this in.
 */
export const releaseDigests: Readonly<Partial<Record<string, ReleaseDigests>>> = {};
