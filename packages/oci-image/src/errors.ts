import { CodedError, isCodedError, isSystemError, type CodedErrorOptions } from "@kip/base";

/** What can go wrong with an image, its registry, and the store. */
export type ImageErrorCode =
  /** Content does not have the digest or size that was promised for it. */
  | "IMAGE_DIGEST_MISMATCH"
  /** The image breaks the OCI or Docker format; asking again gives the same. */
  | "IMAGE_INVALID"
  /** The image passes a limit of `UnpackLimits`. */
  | "IMAGE_LIMIT_EXCEEDED"
  /** A text is not an image name. */
  | "IMAGE_NAME_INVALID"
  /** There is no such image, or none for the platform; see {@link isWrongPlatform}. */
  | "IMAGE_NOT_FOUND"
  /** An image that takes a log-in, where only public ones are allowed. */
  | "IMAGE_PRIVATE"
  /** The store's file system does not work. */
  | "IMAGE_STORE_FAILED"
  /** The store's disk is full. */
  | "IMAGE_STORE_FULL"
  /** An entry of a layer reaches for something outside its root file system. */
  | "IMAGE_UNSAFE_ENTRY"
  /** The image does not list the user or group that it is to run as. */
  | "IMAGE_USER_UNKNOWN"
  /** The registry limits how often it may be used. */
  | "REGISTRY_RATE_LIMITED"
  /** The registry sent less than 1 KiB/s, or a rate that the caller wants, for a minute. */
  | "REGISTRY_TOO_SLOW"
  /** The registry refuses access, or credentials for it cannot be had. */
  | "REGISTRY_UNAUTHORIZED"
  /** The registry does not answer, or answers with a fault of its own. */
  | "REGISTRY_UNREACHABLE"
  /** A root file system cannot be mounted or unmounted. */
  | "ROOTFS_MOUNT_FAILED";

/** Options of {@link ImageError}. */
export interface ImageErrorOptions extends CodedErrorOptions {
  /** What was attempted; the message is `Cannot <action>: <reason>`. @default "use image" */
  readonly action?: string | undefined;
  /** What an image was asked for, such as `linux/arm64`, that is not made for it. */
  readonly wantedPlatform?: string | undefined;
}

/** Characters of a reason that are shown. */
const maxReasonLength = 2000;

/**
 * A failure to get or use an image. `reason` gets more context on its way up ({@link within}) and becomes
 * `Cannot pull image "app:1": layer 2 of 3: entry "etc": <reason>` at the top ({@link failedTo}).
 *
 * @example
 * ```ts
 * import { ImageError, parseReference } from "@kip/oci-image";
 *
 * try {
 *   parseReference("Upper/Case");
 * } catch (error) {
 *   assert.ok(ImageError.is(error, "IMAGE_NAME_INVALID")); // the compiler checks the code
 *   assert.equal(error.reason, "repositories are lower case");
 * }
 * ```
 */
export class ImageError extends CodedError<ImageErrorCode> {
  override readonly name = "ImageError";
  /** The message without the action; at most 2000 characters, without control characters. */
  readonly reason: string;
  readonly wantedPlatform: string | undefined;

  constructor(code: ImageErrorCode, reason: string, options: ImageErrorOptions = {}) {
    const shown = printable(reason, maxReasonLength);
    super(code, `Cannot ${options.action ?? "use image"}: ${shown}`, options);
    this.reason = shown;
    this.wantedPlatform = options.wantedPlatform;
  }
}

/** Foreign text, made fit for terminals, logs and events: without control characters, and cut where it is long. */
export function printable(text: string, maxLength: number): string {
  const shown = text.slice(0, maxLength).replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, " ");
  return text.length > maxLength ? `${shown}…` : shown;
}

/** Something wrong with the image itself; asking again gives the same. */
export function invalidImage(reason: string, cause?: unknown): ImageError {
  return new ImageError("IMAGE_INVALID", reason, {
    cause,
    remedy: "Build and push the image again; if that does not help, its builder is at fault",
  });
}

/** Content that does not have the digest or size that was promised for it. */
export function digestMismatch(what: string, expected: string, actual: string): ImageError {
  return new ImageError("IMAGE_DIGEST_MISMATCH", `${what} should be ${expected} but is ${actual}`, {
    facts: { expected, actual },
    remedy: "Pull again; if it happens again, the registry or a proxy before it alters content",
  });
}

/** An entry of a layer that reaches for something outside its root file system. */
export function unsafeEntry(reason: string): ImageError {
  return new ImageError("IMAGE_UNSAFE_ENTRY", reason, {
    remedy: "Do not run this image: no ordinary builder writes this",
  });
}

/** A layer that passes a limit of `UnpackLimits`. */
export function limitExceeded(what: string, limit: number): ImageError {
  return new ImageError("IMAGE_LIMIT_EXCEEDED", `it has more than ${limit} ${what}`, {
    facts: { what, limit },
    remedy: "Raise the limit if this image is meant to be so large",
  });
}

/** The disk of the store is full. */
export function storeFull(cause?: unknown): ImageError {
  return new ImageError("IMAGE_STORE_FULL", "the disk of the image store is full", {
    cause,
    remedy: "Free some space, or give the machine a larger disk",
  });
}

/** The same failure, with the place where it happened before its reason; other errors as they are. */
export function within(place: string, error: unknown): unknown {
  if (!(error instanceof ImageError)) return error;
  return new ImageError(error.code, `${place}: ${error.reason}`, optionsOf(error));
}

/** The same failure as a sentence on what was attempted, `Cannot <action>: <reason>`; other errors as they are. */
export function failedTo(action: string, error: unknown): unknown {
  if (!(error instanceof ImageError)) return error;
  return new ImageError(error.code, error.reason, { ...optionsOf(error), action });
}

/** A failure of the file system while writing, in the terms of the image if it is to blame; all else as it is. */
export function writeFailure(error: unknown): unknown {
  if (isSystemError(error, "ENOSPC", "EDQUOT")) return storeFull(error);
  if (isSystemError(error, "ENAMETOOLONG")) return invalidImage("its name is too long", error);
  if (isCodedError(error) || !(error instanceof Error && "syscall" in error)) return error;
  return new ImageError("IMAGE_STORE_FAILED", `the image store fails: ${error.message}`, {
    cause: error,
    remedy: "See that the store's disk is mounted, writable and sound",
  });
}

function optionsOf(error: ImageError): ImageErrorOptions {
  const { cause, retryable, retryAfterMs, remedy, facts, wantedPlatform } = error;
  return { cause, retryable, retryAfterMs, remedy, facts, wantedPlatform };
}
