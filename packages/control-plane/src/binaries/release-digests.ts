/** SHA-256 of a release's files, hexadecimal. */
export interface ReleaseDigests {
  /** Digest of each program, as published by the Kubernetes project. */
  readonly kubernetes: Readonly<
    Record<"kube-apiserver" | "kube-controller-manager" | "kube-scheduler" | "kubectl", string>
  >;
  /** Digest of the archive that the etcd project publishes. */
  readonly etcdArchive: string;
  /** Digest of the archive that the CoreDNS project publishes. */
  readonly corednsArchive: string;
}

/**
 * Digests of the pinned releases by architecture, in Go's spelling (`amd64`, `arm64`). For an architecture without digests
 * here, the projects' published checksum files are used. docs/control-plane.md explains how to add digests.
 */
export const releaseDigests: Readonly<Partial<Record<string, ReleaseDigests>>> = {};
