import { CodedError } from "@kip/base";

export type CloudInitErrorCode =
  /** No cloud has data for this machine. */
  | "DATA_SOURCE_MISSING"
  /** The cloud's metadata service refused a request, or its answer is too large or not what it should be. */
  | "METADATA_INVALID"
  /** The cloud's metadata service cannot be reached, or is not able to answer. */
  | "METADATA_UNAVAILABLE"
  /** A copy of a machine template was sent something other than an identity. */
  | "PERSONALITY_INVALID"
  /** The disk with a machine's user data is missing, unreadable or has no instance-id. */
  | "SEED_INVALID"
  /** One file, the host name or one command of the user data failed. */
  | "USER_DATA_APPLY_FAILED"
  /** The user data has a wrong value, a wrong first line, or is too large. */
  | "USER_DATA_INVALID"
  /** A file of the user data has an owner that the machine does not know. */
  | "USER_DATA_OWNER_UNKNOWN";

/** A machine's user data or identity that cannot be read or applied. */
export class CloudInitError extends CodedError<CloudInitErrorCode> {
  override readonly name = "CloudInitError";
}
