import { errorText, isKipError, KipError } from "@kip/base";

/**
 * Runs a build; what fails in it comes out as `CELL_IMAGE_BUILD_FAILED`, unless it says more already.
 *
 * @param what for the message: "Cannot <what>: reason"
 * @throws {KipError} `CELL_IMAGE_BUILD_FAILED`; the signal's reason when it has aborted
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
    if (isKipError(cause) && cause.code.startsWith("CELL_IMAGE_")) throw cause;
    const remedy = isKipError(cause) ? cause.remedy : undefined;
    throw new KipError("CELL_IMAGE_BUILD_FAILED", `Cannot ${what}: ${errorText(cause)}`, {
      cause,
      ...(remedy !== undefined && { remedy }),
    });
  }
}
