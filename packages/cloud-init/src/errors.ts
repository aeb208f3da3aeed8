import { CodedError } from "@kip/base";

export type CloudInitErrorCode =
  /** No cloud has data for this machine. */
  | "DATA_SOURCE_MISSING"
  /** The cloud's metadata service refused a request, or its response is too large or malformed. */
  | "METADATA_INVALID"
  /** The cloud's metadata service cannot be reached, or failed to respond. */
  | "METADATA_UNAVAILABLE"
  /** A clone of a template received something other than an identity. */
  | "PERSONALITY_INVALID"
  /** The disk with a machine's user data is missing or unreadable, or has no instance-id. */
  | "SEED_INVALID"
  /** One file, the host name or one command of the user data failed. */
  | "USER_DATA_APPLY_FAILED"
  /** The user data has an invalid value, an invalid first line, or is too large. */
  | "USER_DATA_INVALID"
  /** A file in the user data has an owner that does not exist on the machine. */
  | "USER_DATA_OWNER_UNKNOWN";

/** A machine's user data or identity cannot be read or applied. */
export class CloudInitError extends CodedError<CloudInitErrorCode> {
  override readonly name = "CloudInitError";
}
