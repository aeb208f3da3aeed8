import { CodedError } from "@kip/base";

/** The codes of this package. */
export type ControlPlaneErrorCode =
  /** Another process is running the control plane of this data directory. */
  | "CONTROL_PLANE_IN_USE"
  /** A program of the control plane ended, or the API was not ready in time. */
  | "CONTROL_PLANE_START_FAILED"
  /** The build of CoreDNS failed. */
  | "COREDNS_BUILD_FAILED"
  /** CoreDNS can be neither downloaded nor built here. */
  | "COREDNS_UNOBTAINABLE"
  /** A downloaded file has the wrong digest, or a program has the wrong version. */
  | "DIGEST_MISMATCH"
  /** There is not enough free space for building the programs. */
  | "DISK_TOO_SMALL"
  /** A release's site lacks a file or checksum, or keeps breaking off. */
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
  /** The given directory lacks one of the programs, or has one that does not run. */
  | "KUBERNETES_PROGRAMS_MISSING"
  /** The programs can be neither downloaded nor built here. */
  | "KUBERNETES_UNOBTAINABLE"
  /** Another program is listening on the port. */
  | "PORT_TAKEN"
  /** The tests' shared control plane has ended. */
  | "TEST_CONTROL_PLANE_LOST";

/** A control plane cannot be obtained, started or reached. */
export class ControlPlaneError extends CodedError<ControlPlaneErrorCode> {
  override readonly name = "ControlPlaneError";
}
