import { CodedError } from "@kip/base";

/** Codes of {@link InstanceTypeError}. */
export type InstanceTypeErrorCode =
  /** The built-in list of types has no such cloud or region. */
  | "CATALOG_UNKNOWN"
  /** No instance type on offer gives a pod what it asks for. */
  | "NO_INSTANCE_TYPE_FITS"
  /** A file with prices or types cannot be used. */
  | "PRICE_FILE_INVALID";

/** Why no instance type can be selected. */
export class InstanceTypeError extends CodedError<InstanceTypeErrorCode> {
  override readonly name = "InstanceTypeError";
}
