import { CodedError } from "@kip/base";

/** The codes of this package. */
export type ControlPlaneErrorCode =
  /** Another process runs the control plane of this data directory. */
  | "CONTROL_PLANE_IN_USE"
  /** A program of the control plane ended, or the API was not ready in time. */
  | "CONTROL_PLANE_START_FAILED"
  /** The build of CoreDNS failed. */
  | "COREDNS_BUILD_FAILED"
  /** CoreDNS can neither be downloaded nor built here. */
  | "COREDNS_UNOBTAINABLE"
  /** A downloaded file has another digest, or a program another version, than it must have. */
  | "DIGEST_MISMATCH"
  /** Less space is free than the build of the programs needs. */
  | "DISK_TOO_SMALL"
  /** A release's site has no such file or checksum, or breaks off again and again. */
  | "DOWNLOAD_FAILED"
  /** The go command failed. */
  | "GO_FAILED"
  /** There is no Go toolchain. */
  | "GO_MISSING"
  /** kubectl refuses to change the kubeconfig. */
  | "KUBECONFIG_INVALID"
  /** Another program is changing the kubeconfig. */
  | "KUBECONFIG_LOCKED"
  /** The build of the programs failed. */
  | "KUBERNETES_BUILD_FAILED"
  /** The directory named for the programs lacks one, or has one that does not run. */
  | "KUBERNETES_PROGRAMS_MISSING"
  /** The programs can neither be downloaded nor built here. */
  | "KUBERNETES_UNOBTAINABLE"
  /** Another program listens at the port. */
  | "PORT_TAKEN"
  /** The control plane that tests share has ended. */
  | "TEST_CONTROL_PLANE_LOST";

/** A control plane that cannot be obtained, started or reached. */
export class ControlPlaneError extends CodedError<ControlPlaneErrorCode> {
  override readonly name = "ControlPlaneError";
}
