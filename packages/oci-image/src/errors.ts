import { hasCode, isCodedError, CodedError, type CodedErrorOptions } from "@kip/base";

/** Characters of a reason that are shown. */
const maxReasonLength = 2000;

/**
 * A failure to get an image. `reason` gets more context on its way up ({@link within})
 * and becomes `Cannot pull image "app:1": layer 2 of 3: entry "etc": <reason>` at the top.
 */
export function imageError(
  code: string,
  reason: string,
  options: CodedErrorOptions = {},
): CodedError {
  const shown = printable(reason, maxReasonLength);
  return new CodedError(code, `Cannot use image: ${shown}`, {
    ...options,
    facts: { ...options.facts, reason: shown },
  });
}

/** Strangers' words, made fit for terminals, logs and events: without control characters, and cut where they are long. */
export function printable(words: string, maxLength: number): string {
  const shown = words.slice(0, maxLength).replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, " ");
  return words.length > maxLength ? `${shown}…` : shown;
}

/** Something wrong with the image itself; asking again gives the same. */
export function invalidImage(reason: string, cause?: unknown): CodedError {
  return imageError("IMAGE_INVALID", reason, {
    cause,
    remedy: "Build and push the image again; if that does not help, its builder is at fault",
  });
}

/** Content that does not have the digest or size that was promised for it. */
export function digestMismatch(what: string, expected: string, actual: string): CodedError {
  return imageError("IMAGE_DIGEST_MISMATCH", `${what} should be ${expected} but is ${actual}`, {
    facts: { expected, actual },
    remedy: "Pull again; if it happens again, the registry or a proxy before it alters content",
  });
}

/** An entry of a layer that reaches for something outside its root file system. */
export function unsafeEntry(reason: string): CodedError {
  return imageError("IMAGE_UNSAFE_ENTRY", reason, {
    remedy: "Do not run this image: no ordinary builder writes this",
  });
}

/** A layer that passes a limit of `UnpackLimits`. */
export function limitExceeded(what: string, limit: number): CodedError {
  return imageError("IMAGE_LIMIT_EXCEEDED", `it has more than ${limit} ${what}`, {
    facts: { what, limit },
    remedy: "Raise the limit if this image is meant to be so large",
  });
}

/** The same failure, with the place where it happened before its reason. */
export function within(place: string, error: unknown): unknown {
  const reason = reasonOf(error);
  return reason === undefined ? error : rebuilt(error, `${place}: ${reason}`);
}

/** The same failure as a sentence on what was attempted: `Cannot <action>: <reason>`. */
export function failedTo(action: string, error: unknown): unknown {
  const reason = reasonOf(error);
  if (!isCodedError(error) || reason === undefined) return error;
  return new CodedError(error.code, `Cannot ${action}: ${reason}`, optionsOf(error));
}

/** A failure of the file system while writing, in the terms of the image if it is to blame; all else as it is. */
export function writeFailure(error: unknown): unknown {
  if (hasCode(error, "ENOSPC", "EDQUOT")) {
    return imageError("IMAGE_STORE_FULL", "the disk of the image store is full", {
      cause: error,
      remedy: "Free some space, or give the machine a larger disk",
    });
  }
  if (hasCode(error, "ENAMETOOLONG")) return invalidImage("its name is too long", error);
  if (isCodedError(error) || !(error instanceof Error && "syscall" in error)) return error;
  return imageError("IMAGE_STORE_FAILED", `the image store fails: ${error.message}`, {
    cause: error,
    remedy: "See that the store's disk is mounted, writable and sound",
  });
}

function reasonOf(error: unknown): string | undefined {
  const reason = isCodedError(error) ? error.facts["reason"] : undefined;
  return typeof reason === "string" ? reason : undefined;
}

function rebuilt(error: unknown, reason: string): unknown {
  return isCodedError(error) ? imageError(error.code, reason, optionsOf(error)) : error;
}

function optionsOf(error: CodedError): CodedErrorOptions {
  return {
    cause: error.cause,
    retryable: error.retryable,
    retryAfterMs: error.retryAfterMs,
    facts: error.facts,
    remedy: error.remedy,
  };
}
