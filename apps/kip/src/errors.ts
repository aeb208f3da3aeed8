import { CodedError } from "@kip/base";

export type KipErrorCode =
  /** The configuration names a cloud that this version has no driver for. */
  | "CLOUD_DRIVER_MISSING"
  /** A command whose packages this installation does not have. */
  | "COMMAND_NOT_INSTALLED"
  /** The provider's configuration cannot be read. */
  | "CONFIG_INVALID"
  /** A folder holds files that kip did not make. */
  | "FOLDER_FOREIGN"
  /** Too little memory for the local cluster. */
  | "HOST_TOO_SMALL"
  /** There is no local cluster. */
  | "LOCAL_CLUSTER_ABSENT"
  /** A part of the local cluster could not be started or ended. */
  | "LOCAL_CLUSTER_FAILED"
  /** An image could not be pushed to the local registry. */
  | "LOCAL_REGISTRY_FAILED"
  /** A manifest cannot be read, or has pods that cannot be priced. */
  | "MANIFEST_INVALID"
  /** The local cluster is root's. */
  | "NOT_ROOT";

/** A command of `kip` that cannot be done. */
export class KipError extends CodedError<KipErrorCode> {
  override readonly name = "KipError";
}
