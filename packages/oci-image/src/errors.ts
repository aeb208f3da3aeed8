import { CodedError, isCodedError, isSystemError, type CodedErrorOptions } from "@kip/base";

/** The codes of this package. */
export type ImageErrorCode =
  /** Content does not have the expected digest or size. */
  | "IMAGE_DIGEST_MISMATCH"
  /** The image violates the OCI or Docker format. Repeating the request gives the same result. */
  | "IMAGE_INVALID"
  /** The image exceeds one of the `UnpackLimits`. */
  | "IMAGE_LIMIT_EXCEEDED"
  /** A text is not a valid image name. */
  | "IMAGE_NAME_INVALID"
  /** The image does not exist, or not for the platform, see {@link isWrongPlatform}. */
  | "IMAGE_NOT_FOUND"
  /** The image requires a log-in, where only public images are allowed. */
  | "IMAGE_PRIVATE"
  /** The store's file system failed. */
  | "IMAGE_STORE_FAILED"
  /** The store's disk is full. */
  | "IMAGE_STORE_FULL"
  /** An entry of a layer refers to something outside its root file system. */
  | "IMAGE_UNSAFE_ENTRY"
  /** The image does not contain the user or group that it is configured to run as. */
  | "IMAGE_USER_UNKNOWN"
  /** The registry limits how often it may be used. */
  | "REGISTRY_RATE_LIMITED"
  /** The registry sent less than 1 KiB/s, or less than the caller's minimum, for a minute. */
  | "REGISTRY_TOO_SLOW"
  /** The registry refuses access, or credentials for it are not available. */
  | "REGISTRY_UNAUTHORIZED"
  /** The registry does not answer, or has an internal error. */
  | "REGISTRY_UNREACHABLE"
  /** A root file system cannot be mounted or unmounted. */
  | "ROOTFS_MOUNT_FAILED";

/** Options of {@link ImageError}. */
export interface ImageErrorOptions extends CodedErrorOptions {
  /** The attempted action. The message is `Cannot <action>: <reason>`. @default "use image" */
  readonly action?: string | undefined;
  /** The requested platform, such as `linux/arm64`, if the image does not support it. */
  readonly wantedPlatform?: string | undefined;
}

/** Longest reason in a message, characters. */
const maxReasonLength = 2000;

/**
 * A failure to get or use an image. Callers add context to `reason` ({@link within}). At the top it becomes
 * `Cannot pull image "app:1": layer 2 of 3: entry "etc": <reason>` ({@link failedTo}).
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
  /** The message without the action, at most 2000 characters, without control characters. */
  readonly reason: string;
  readonly wantedPlatform: string | undefined;

  constructor(code: ImageErrorCode, reason: string, options: ImageErrorOptions = {}) {
    const shown = printable(reason, maxReasonLength);
    super(code, `Cannot ${options.action ?? "use image"}: ${shown}`, options);
    this.reason = shown;
    this.wantedPlatform = options.wantedPlatform;
  }
}

/** Makes foreign text safe for terminals, logs and events: removes control characters and truncates long texts. */
export function printable(text: string, maxLength: number): string {
  const shown = text.slice(0, maxLength).replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, " ");
  return text.length > maxLength ? `${shown}…` : shown;
}

/** The image itself is invalid. Repeating the request gives the same result. */
export function invalidImage(reason: string, cause?: unknown): ImageError {
  return new ImageError("IMAGE_INVALID", reason, {
    cause,
    remedy: "Build and push the image again; if that does not help, its builder is at fault",
  });
}

/** Content does not have the expected digest or size. */
export function digestMismatch(what: string, expected: string, actual: string): ImageError {
  return new ImageError("IMAGE_DIGEST_MISMATCH", `${what} should be ${expected} but is ${actual}`, {
    facts: { expected, actual },
    remedy: "Pull again; if it happens again, the registry or a proxy before it alters content",
  });
}

/** An entry of a layer refers to something outside its root file system. */
export function unsafeEntry(reason: string): ImageError {
  return new ImageError("IMAGE_UNSAFE_ENTRY", reason, {
    remedy: "Do not run this image: no ordinary builder writes this",
  });
}

/** A layer exceeds one of the `UnpackLimits`. */
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

/** Adds the place of a failure before its reason. Returns other errors unchanged. */
export function within(place: string, error: unknown): unknown {
  if (!(error instanceof ImageError)) return error;
  return new ImageError(error.code, `${place}: ${error.reason}`, optionsOf(error));
}

/** Turns a failure into a sentence about the attempted action, `Cannot <action>: <reason>`. Returns other errors unchanged. */
export function failedTo(action: string, error: unknown): unknown {
  if (!(error instanceof ImageError)) return error;
  return new ImageError(error.code, error.reason, { ...optionsOf(error), action });
}

/** Turns a file system failure that the image has caused into one about the image. Returns other errors unchanged. */
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
