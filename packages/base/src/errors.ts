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

/** The failure of a program. */
export class CommandError extends CodedError<CommandErrorCode> {
  override readonly name = "CommandError";
  /** Undefined if the program was killed or could not be started. */
  readonly exitCode: number | undefined;
  /** The signal that killed it. */
  readonly signal: NodeJS.Signals | undefined;
  /** Everything it wrote to standard error. */
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

/** A document or text that does not have the expected form. */
export class DecodeError extends CodedError<DecodeErrorCode> {
  override readonly name = "DecodeError";
}

export type LockErrorCode =
  /** Another process holds the lock. */
  | "LOCK_HELD"
  /** The lock cannot be taken for another reason. */
  | "LOCK_UNAVAILABLE";

/** A file lock could not be taken. */
export class LockError extends CodedError<LockErrorCode> {
  override readonly name = "LockError";
}

export type OptionErrorCode =
  /** The value of a flag or variable is invalid. */
  | "OPTION_INVALID"
  /** A flag or variable without a default is missing. */
  | "OPTION_MISSING"
  /** The flag or command does not exist. */
  | "OPTION_UNKNOWN";

/** An invalid command line or environment. */
export class OptionError extends CodedError<OptionErrorCode> {
  override readonly name = "OptionError";
}
