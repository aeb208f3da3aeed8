import { CodedError, type CodedErrorOptions } from "./coded-error.ts";

/** Options of {@link CommandError}. */
export interface CommandErrorOptions extends CodedErrorOptions {
  readonly exitCode?: number | undefined;
  readonly signal?: NodeJS.Signals | undefined;
  readonly stderr?: string | undefined;
}

export type CommandErrorCode =
  /** A program could not be started, exited non-zero, was killed or took too long. */
  "COMMAND_FAILED";

/** A program that failed. */
export class CommandError extends CodedError<CommandErrorCode> {
  override readonly name = "CommandError";
  /** Undefined if it was killed or could not be started. */
  readonly exitCode: number | undefined;
  /** What killed it. */
  readonly signal: NodeJS.Signals | undefined;
  /** All that it wrote to standard error. */
  readonly stderr: string;

  constructor(code: CommandErrorCode, message: string, options: CommandErrorOptions = {}) {
    super(code, message, options);
    this.exitCode = options.exitCode;
    this.signal = options.signal;
    this.stderr = options.stderr ?? "";
  }
}

export type DecodeErrorCode =
  /** A document has a wrong or unknown key; the message names its path. */
  | "DECODE_FAILED"
  /** A text is not a Kubernetes quantity. */
  | "QUANTITY_INVALID";

/** A document or text that does not have the form which is expected. */
export class DecodeError extends CodedError<DecodeErrorCode> {
  override readonly name = "DecodeError";
}

export type LockErrorCode =
  /** Another process holds the lock. */
  | "LOCK_HELD"
  /** The lock cannot be taken at all. */
  | "LOCK_UNAVAILABLE";

/** A file lock that was not taken. */
export class LockError extends CodedError<LockErrorCode> {
  override readonly name = "LockError";
}

export type OptionErrorCode =
  /** The value of a flag or variable is not one of those it can have. */
  | "OPTION_INVALID"
  /** A flag or variable without a default was not given. */
  | "OPTION_MISSING"
  /** There is no such flag or command. */
  | "OPTION_UNKNOWN";

/** A command line or an environment that a program cannot start with. */
export class OptionError extends CodedError<OptionErrorCode> {
  override readonly name = "OptionError";
}
