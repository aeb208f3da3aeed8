import type { constants } from "node:os";

/** Options of {@link CodedError}. */
export interface CodedErrorOptions {
  /** The error that caused this one. */
  readonly cause?: unknown;
  /** Whether the same call may succeed later without any change by a user. @default false */
  readonly retryable?: boolean | undefined;
  /** Milliseconds after which the server wants to be asked again, 0 or more. @default the server did not name a time */
  readonly retryAfterMs?: number | undefined;
  /** What the user can do about the error, in one sentence. Command-line programs print it after the message. */
  readonly remedy?: string | undefined;
  /** More about the failure, for log lines, without secrets. Programs read fields of subclasses instead. */
  readonly facts?: Readonly<Record<string, unknown>> | undefined;
}

const marker = Symbol.for("coded-error");

/**
 * A condition that a caller may handle, told apart by its stable `code`.
 *
 * Each package has a subclass whose codes are a union, and whose fields hold what callers decide by:
 *
 * ```ts
 * type StoreErrorCode = "STORE_FULL" | "STORE_LOCKED";
 * class StoreError extends CodedError<StoreErrorCode> {}
 * if (StoreError.is(error, "STORE_FULL")) … // the compiler checks the code
 * ```
 *
 * Message form: `Cannot <verb> <object>: <reason>`; sentence case, no full stop, no secrets.
 */
export class CodedError<Code extends string = string> extends Error {
  override readonly name: string = "CodedError";
  readonly code: Code;
  readonly retryable: boolean;
  readonly retryAfterMs: number | undefined;
  readonly remedy: string | undefined;
  readonly facts: Readonly<Record<string, unknown>>;

  constructor(code: Code, message: string, options: CodedErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.retryable = options.retryable ?? false;
    this.retryAfterMs = options.retryAfterMs;
    this.remedy = options.remedy;
    this.facts = options.facts ?? {};
    Object.defineProperty(this, marker, { value: true });
  }

  /**
   * Whether a value is an error of this class. If codes are given, it must also have one of them.
   *
   * @example `K8sError.is(error, "K8S_NOT_FOUND", "K8S_GONE")`
   */
  static is<E extends CodedError>(
    this: abstract new (...args: never) => E,
    error: unknown,
    ...codes: readonly E["code"][]
  ): error is E {
    return error instanceof this && (codes.length === 0 || codes.includes(error.code));
  }
}

/** Whether a value is a {@link CodedError} of any package, including one of another copy of this package. */
export function isCodedError(error: unknown): error is CodedError {
  return typeof error === "object" && error !== null && marker in error;
}

/** The codes of Node's system errors on this platform, and of its name look-ups (getaddrinfo(3)). */
export type SystemErrorCode = keyof typeof constants.errno | "EAI_AGAIN" | "ENOTFOUND";

/** Whether an error is a system error of Node with one of the given codes, such as `ENOENT`. */
export function isSystemError(error: unknown, ...codes: readonly SystemErrorCode[]): boolean {
  if (typeof error !== "object" || error === null || !("code" in error)) return false;
  return codes.some((code) => code === error.code);
}

/** Whether the error is marked as one where the same call may succeed later. */
export function isRetryable(error: unknown): boolean {
  return isCodedError(error) && error.retryable;
}

/** The messages of an error and its causes on one line: `Cannot a: b: c`. */
export function errorText(error: unknown): string {
  const parts: string[] = [];
  let current: unknown = error;
  for (let depth = 0; depth < 5 && current !== undefined && current !== null; depth++) {
    const text = current instanceof Error ? current.message || current.name : plainText(current);
    if (text !== "" && !parts.some((part) => part.includes(text))) parts.push(text);
    current = current instanceof Error ? current.cause : undefined;
  }
  return parts.join(": ");
}

function plainText(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
