import { CodedError } from "@kip/base";

export type KipErrorCode =
  /** The configuration names a cloud that this version has no driver for. */
  | "CLOUD_DRIVER_MISSING"
  /** The packages that a command needs are not installed. */
  | "COMMAND_NOT_INSTALLED"
  /** The provider's configuration cannot be read or is not valid. */
  | "CONFIG_INVALID"
  /** A folder contains files that kip did not create. */
  | "FOLDER_FOREIGN"
  /** This computer has too little memory for the local cluster. */
  | "HOST_TOO_SMALL"
  /** The local cluster does not run. */
  | "LOCAL_CLUSTER_ABSENT"
  /** A part of the local cluster could not be started or stopped. */
  | "LOCAL_CLUSTER_FAILED"
  /** An image could not be pushed to the local registry. */
  | "LOCAL_REGISTRY_FAILED"
  /** A manifest cannot be read, or contains pods that cannot be priced. */
  | "MANIFEST_INVALID"
  /** Only root may run this command. */
  | "NOT_ROOT";

/** Thrown if a `kip` command cannot be carried out. */
export class KipError extends CodedError<KipErrorCode> {
  override readonly name = "KipError";
}
