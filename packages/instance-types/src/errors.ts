import { CodedError } from "@kip/base";

/** Codes of {@link InstanceTypeError}. */
export type InstanceTypeErrorCode =
  /** The built-in list does not have this cloud or region. */
  | "CATALOG_UNKNOWN"
  /** No instance type on offer has what a pod requests. */
  | "NO_INSTANCE_TYPE_FITS"
  /** A file with prices or types is not valid. */
  | "PRICE_FILE_INVALID";

/** Thrown if no instance type can be selected. */
export class InstanceTypeError extends CodedError<InstanceTypeErrorCode> {
  override readonly name = "InstanceTypeError";
}
