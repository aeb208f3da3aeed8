import { CodedError } from "@kip/base";

/** What can be wrong with a command line. */
export type TosiErrorCode =
  /** The value of an option, or the words after a command, cannot be used. */
  | "OPTION_INVALID"
  /** An option that the command needs is not given. */
  | "OPTION_MISSING"
  /** There is no such command. */
  | "OPTION_UNKNOWN";

/** A command line that cannot be obeyed. */
export class TosiError extends CodedError<TosiErrorCode> {
  override readonly name = "TosiError";
}

/** Several images were asked for, and some failed. The code is that of the first failure. */
export class SomeImagesFailedError extends CodedError {
  override readonly name = "SomeImagesFailedError";
}
