import { CommandError, OptionError } from "@kip/base";
import { ImageError, type ImageErrorCode } from "@kip/oci-image";
import { SomeImagesFailedError } from "./errors.ts";

const imageExitCodes: Readonly<Record<ImageErrorCode, number>> = {
  IMAGE_NAME_INVALID: 2,
  IMAGE_PRIVATE: 2,
  IMAGE_NOT_FOUND: 3,
  REGISTRY_UNAUTHORIZED: 4,
  REGISTRY_RATE_LIMITED: 5,
  REGISTRY_TOO_SLOW: 5,
  REGISTRY_UNREACHABLE: 5,
  IMAGE_DIGEST_MISMATCH: 6,
  IMAGE_INVALID: 6,
  IMAGE_LIMIT_EXCEEDED: 6,
  IMAGE_UNSAFE_ENTRY: 6,
  IMAGE_USER_UNKNOWN: 6,
  IMAGE_STORE_FAILED: 7,
  IMAGE_STORE_FULL: 7,
  ROOTFS_MOUNT_FAILED: 7,
};

/**
 * The exit code for an error:
 *
 * - 2: the command line is invalid
 * - 3: the image does not exist
 * - 4: access denied
 * - 5: the registry cannot be reached or limits requests; retry later
 * - 6: the image is damaged, unsafe or too large
 * - 7: a problem of this machine: disk full, cannot mount or copy
 * - 1: anything else
 */
export function exitCodeOf(error: unknown): number {
  if (error instanceof SomeImagesFailedError) return exitCodeOf(error.cause);
  if (error instanceof ImageError) return imageExitCodes[error.code];
  if (error instanceof OptionError) return 2;
  return error instanceof CommandError ? 7 : 1;
}
