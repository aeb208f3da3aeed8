import type { DesiredImageSettings } from "@kip/agent-api";
import type { Clock, Logger } from "@kip/base";
import type { ApiClient } from "@kip/k8s-client";
import {
  ImageError,
  prefetchImage,
  type Platform,
  type Prefetched,
  type PrefetchOptions,
} from "@kip/oci-image";
import { imageLogIns, type RegistrySettings } from "./image-log-ins.ts";
import type { WantedImage } from "./wanted-images.ts";

/** Settings for fetching images into the cache. */
export interface FillSettings extends RegistrySettings {
  readonly proxy: DesiredImageSettings["proxy"];
}

/** Options of {@link fillImage}. */
export interface FillOptions {
  readonly cache: string;
  readonly settings: FillSettings;
  /** Platforms of the cells. */
  readonly platforms: readonly Platform[];
  readonly allowsPrivate: boolean;
  /** A registry that sends less than this for a minute is given up. */
  readonly leastBytesPerSecond: number;
  /** Called with the digest of the name when blobs are missing, before they are fetched. */
  readonly onDigest: (digest: string) => void;
  /** Reads pull secrets. Without it, pull secrets are ignored. */
  readonly client: ApiClient | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/**
 * Fetches what the cache lacks of an image, for each platform for which the image exists.
 *
 * @throws {ImageError} like `prefetchImage`; `IMAGE_NOT_FOUND` if it exists for none of the platforms
 */
export async function fillImage(image: WantedImage, options: FillOptions): Promise<Prefetched> {
  const { cache, settings, platforms, signal } = options;
  const { allowsPrivate, leastBytesPerSecond, onDigest, clock } = options;
  const [first = [], ...others] = await imageLogIns(image, settings, options);
  const { proxy } = settings;
  const common = { proxy, allowsPrivate, leastBytesPerSecond, onDigest, clock, signal };
  let filled: Prefetched | undefined;
  let missing: unknown;
  for (const platform of platforms) {
    const get = async (registries: PrefetchOptions["registries"]): Promise<Prefetched> =>
      await prefetchImage(image.reference, cache, { ...common, platform, registries });
    try {
      const { digest, writtenBytes } = await get(first).catch(async (error: unknown) => {
        signal.throwIfAborted();
        return await insteadBy(others, get, error, signal);
      });
      filled = { digest, writtenBytes: writtenBytes + (filled?.writtenBytes ?? 0) };
    } catch (error) {
      if (!(error instanceof ImageError) || error.wantedPlatform === undefined) throw error;
      missing = error;
    }
  }
  if (filled) return filled;
  throw missing;
}

/** Tries other logins after a refusal. If all fail, throws the first error. */
async function insteadBy(
  others: readonly PrefetchOptions["registries"][],
  get: (registries: PrefetchOptions["registries"]) => Promise<Prefetched>,
  error: unknown,
  signal: AbortSignal,
): Promise<Prefetched> {
  // Registries do not reveal to unauthorized clients whether an image exists.
  if (!ImageError.is(error, "REGISTRY_UNAUTHORIZED", "IMAGE_NOT_FOUND")) throw error;
  for (const registries of others) {
    const filled = await get(registries).catch(() => {});
    signal.throwIfAborted();
    if (filled) return filled;
  }
  throw error;
}
