import { CodedError } from "@kip/base";

/** The codes of this package. */
export type PkiErrorCode =
  /** A stored certificate authority is unreadable, is not an authority, or its key does not match. */
  "PKI_AUTHORITY_INVALID";

/** An unusable certificate or key. */
export class PkiError extends CodedError<PkiErrorCode> {
  override readonly name = "PkiError";
}
