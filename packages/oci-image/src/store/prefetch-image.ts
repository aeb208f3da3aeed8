import { systemClock } from "@kip/base";
import { failedTo, writeFailure } from "../errors.ts";
import { hostPlatform } from "../platform.ts";
import { formatReference, type Reference } from "../reference.ts";
import { openRegistry } from "../registry/registry-source.ts";
import { fillCache } from "./blob-cache.ts";
import type { PullOptions } from "./image-store.ts";

/**
 * Puts an image's blobs into a folder that other machines pull from (`PullOptions.cache`). Several
 * may fill one folder at once, on NFS too: each blob is fetched by one of them, written under a name of
 * its own and renamed when it is whole.
 *
 * @returns bytes that were not there before
 * @throws {KipError} the codes of `ImageStore.pull`
 */
export async function prefetchImage(
  reference: Reference,
  cache: string,
  options: Pick<PullOptions, "registries" | "platform" | "attempts" | "proxy" | "signal"> & {
    /** Whether what is in the folder already is checked, and fetched again if it is wrong. @default false */
    readonly verifies?: boolean;
  },
): Promise<number> {
  const { attempts, proxy, signal, verifies = false } = options;
  try {
    await using registry = openRegistry(reference, options.registries, {
      retry: { clock: systemClock, ...(attempts !== undefined && { attempts }) },
      ...(proxy && { proxy }),
    });
    const platform = options.platform ?? hostPlatform();
    const filled = { platform, verifies, clock: systemClock, ...(signal && { signal }) };
    return await fillCache(registry, cache, filled);
  } catch (error) {
    signal?.throwIfAborted();
    throw failedTo(`prefetch image "${formatReference(reference)}"`, writeFailure(error));
  }
}
