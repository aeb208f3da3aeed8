import { errorText, isCodedError } from "@kip/base";
import { CellImageError } from "./errors.ts";

/**
 * Runs a build and turns its failures into `CELL_IMAGE_BUILD_FAILED`, unless they already have a more specific code.
 *
 * @param what completes the message "Cannot <what>: reason"
 * @throws {CellImageError} `CELL_IMAGE_BUILD_FAILED`; the signal's reason when it has aborted
 */
export async function asBuildFailure<T>(
  what: string,
  signal: AbortSignal | undefined,
  build: () => Promise<T>,
): Promise<T> {
  try {
    return await build();
  } catch (cause) {
    signal?.throwIfAborted();
    if (CellImageError.is(cause)) throw cause;
    const remedy = isCodedError(cause) ? cause.remedy : undefined;
    throw new CellImageError("CELL_IMAGE_BUILD_FAILED", `Cannot ${what}: ${errorText(cause)}`, {
      cause,
      remedy,
    });
  }
}
