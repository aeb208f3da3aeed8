import { errorText, isCodedError } from "@kip/base";
import { CellImageError } from "./errors.ts";

/**
 * Runs a build; what fails in it comes out as `CELL_IMAGE_BUILD_FAILED`, unless it says more already.
 *
 * @param what for the message: "Cannot <what>: reason"
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
