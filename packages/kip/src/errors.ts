import { CodedError, errorText, isCodedError } from "@kip/base";

/** Codes of {@link ProviderError}; docs/errors.md says what to do about each. */
export type ProviderErrorCode =
  /** An annotation of a pod is misspelt or has an invalid value. */
  | "ANNOTATION_INVALID"
  /** The previous Cell still has finalizers of other clients. */
  | "CELL_BEING_DELETED"
  /** No agent is connected. */
  | "CELL_NOT_READY"
  /** The agent has a newer generation of its pod than kip. */
  | "CELL_POD_IGNORED"
  /** `provider.yaml` or an option has an invalid value. */
  | "CONFIG_INVALID"
  /** The cell's kernel does not accept the pod's host name. The event has the kubelet's reason. */
  | "FAILED_CREATE_POD_SAND_BOX"
  /** An image was not completely in the shared cache within the time limit. */
  | "IMAGE_FILL_TIMEOUT"
  /** Kip has no permission to write the Secret of the certificate authority, or to create its namespace. */
  | "IDENTITY_SECRET_FORBIDDEN"
  /** The Secret of the certificate authority does not contain a key pair. */
  | "IDENTITY_SECRET_INVALID"
  /** There is no folder for the logs of finished pods. */
  | "LOG_ARCHIVE_FAILED"
  /** The node to be removed has pods that have not ended. */
  | "NODE_IN_USE"
  /** A kip is running the node to be removed. */
  | "NODE_RUNNING"
  /** A pod with the content of its volumes and variables is larger than an agent accepts. */
  | "POD_TOO_LARGE"
  /** Every machine that fits a pod costs more than its annotation allows. */
  | "PRICE_ABOVE_LIMIT"
  /** A pool of standby cells requests a machine that does not exist. */
  | "STANDBY_POOL_INVALID";

/** Thrown if the provider cannot run a pod, reach its cell, or start. */
export class ProviderError extends CodedError<ProviderErrorCode> {
  override readonly name = "ProviderError";
}

/** An error as an event and condition of a pod: a reason in camel case, and a message with the remedy, if there is one. */
export function problemOf(error: unknown): { readonly reason: string; readonly message: string } {
  if (!isCodedError(error)) return { reason: "CellStepFailed", message: errorText(error) };
  const remedy = error.remedy === undefined ? "" : `. ${error.remedy}`;
  return { reason: problemReason(error.code), message: `${errorText(error)}${remedy}` };
}

/** `CLOUD_NO_CAPACITY` → `CloudNoCapacity`, because event reasons are in camel case. */
function problemReason(code: string): string {
  return code
    .toLowerCase()
    .split("_")
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join("");
}
