import { CodedError } from "@kip/base";

export type KipctlErrorCode =
  /** A command of the original kipctl that has another name, or no meaning, now that the Kubernetes API is the store. */
  | "COMMAND_REPLACED"
  /** exec and attach run kubectl, which is not there. */
  | "KUBECTL_MISSING"
  /** A manifest that cannot be read, or that has objects which are not pods. */
  | "MANIFEST_REFUSED"
  /** The cluster has no node of kip that answers. */
  | "NO_KIP_NODE"
  /** There is no such object. */
  | "OBJECT_NOT_FOUND"
  /** Another program listens at the port. */
  | "PORT_TAKEN";

/** A command of `kipctl` that cannot be done. */
export class KipctlError extends CodedError<KipctlErrorCode> {
  override readonly name = "KipctlError";
}
