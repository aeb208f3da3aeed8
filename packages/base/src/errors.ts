/** Options of {@link KipError}. */
export interface KipErrorOptions {
  /** The error that led to this one. */
  readonly cause?: unknown;
  /** Whether the same call may succeed later without anybody changing anything. @default false */
  readonly retryable?: boolean | undefined;
  /** What the reader can do about it, one sentence. Printed after the message by command lines. */
  readonly remedy?: string | undefined;
  /** Typed facts about the failure, safe to log. */
  readonly facts?: Readonly<Record<string, unknown>> | undefined;
}

const marker = Symbol.for("kip.error");

/**
 * A condition that a caller may handle, told apart by its stable `code`.
 *
 * Message form: `Cannot <verb> <object>: <reason>`; sentence case, no full stop, no secrets.
 * Callers branch on {@link hasCode}, never on message text nor on `instanceof`, because two copies
 * of this package can meet in one process.
 */
export class KipError extends Error {
  override readonly name: string = "KipError";
  readonly code: string;
  readonly retryable: boolean;
  readonly remedy: string | undefined;
  readonly facts: Readonly<Record<string, unknown>>;

  constructor(code: string, message: string, options: KipErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.retryable = options.retryable ?? false;
    this.remedy = options.remedy;
    this.facts = options.facts ?? {};
    Object.defineProperty(this, marker, { value: true });
  }
}

/** Whether a value is a {@link KipError}, of this or of another copy of the package. */
export function isKipError(error: unknown): error is KipError {
  return typeof error === "object" && error !== null && marker in error;
}

/** Whether an error carries one of the given codes; works for Node's system errors (`ENOENT`) too. */
export function hasCode(error: unknown, ...codes: readonly string[]): boolean {
  if (typeof error !== "object" || error === null || !("code" in error)) return false;
  return typeof error.code === "string" && codes.includes(error.code);
}

/** Whether the error says of itself that the same call may succeed later. */
export function isRetryable(error: unknown): boolean {
  return isKipError(error) && error.retryable;
}

/** The text of an error and of its causes, on one line: `Cannot a: b: c`. */
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
