import { CodedError } from "@kip/base";

export type KipctlErrorCode =
  /** A command of the original kipctl that was renamed, or has no purpose now that the Kubernetes API is the store. */
  | "COMMAND_REPLACED"
  /** exec and attach run kubectl, which is not installed. */
  | "KUBECTL_MISSING"
  /** A manifest cannot be read, or contains objects other than pods. */
  | "MANIFEST_REFUSED"
  /** The cluster has no kip node that responds. */
  | "NO_KIP_NODE"
  /** The object does not exist. */
  | "OBJECT_NOT_FOUND"
  /** Another program is listening at the port. */
  | "PORT_TAKEN";

/** Thrown if a `kipctl` command cannot be carried out. */
export class KipctlError extends CodedError<KipctlErrorCode> {
  override readonly name = "KipctlError";
}
