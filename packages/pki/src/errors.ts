import { CodedError } from "@kip/base";

/** The codes of this package. */
export type PkiErrorCode =
  /** A stored certificate authority is unreadable, not an authority's, or has a foreign key. */
  "PKI_AUTHORITY_INVALID";

/** A certificate or key that cannot be used. */
export class PkiError extends CodedError<PkiErrorCode> {
  override readonly name = "PkiError";
}
