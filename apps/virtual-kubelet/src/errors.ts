import { CodedError } from "@kip/base";

/** Codes of {@link CommandLineError}; docs/errors.md says what to do about each. */
export type CommandLineErrorCode =
  /** `--trace-exporter` names something that traces cannot go to. */
  "TRACE_EXPORTER_UNKNOWN";

/** A command line that this program cannot follow, beyond what its option table says. */
export class CommandLineError extends CodedError<CommandLineErrorCode> {
  override readonly name = "CommandLineError";
}
