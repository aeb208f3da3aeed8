import { isSystemError, type Clock } from "@kip/base";
import { ImageError } from "../errors.ts";
import { parseManifest, type Index, type Manifest } from "../manifest.ts";
import { choosePlatform, hostPlatform, type Platform } from "../platform.ts";
import type { Reference } from "../reference.ts";
import { BlobCache } from "./blob-cache.ts";

/** The parts of an image in a shared cache. */
export interface CachedImage {
  /** Whether a pull for the platform needs no blob from the registry. */
  readonly isWhole: boolean;
  /** Digests of the image's manifests and blobs in the cache. */
  readonly digests: readonly string[];
}

/**
 * Marks an image with a known digest as used in a shared cache, and finds which parts of it are there. Does not ask a registry.
 *
 * @param reference with a digest. Nothing is found without one
 * @param options.platform which image of an index to use. @default this machine's
 * @throws errors of a file system that does not work
 */
export async function markCachedImage(
  reference: Reference,
  cache: string,
  options: { readonly platform?: Platform | undefined; readonly clock: Clock },
): Promise<CachedImage> {
  const { platform = hostPlatform(), clock } = options;
  if (reference.digest === undefined) return { isWhole: false, digests: [] };
  using known = BlobCache.public(cache);
  using own = BlobCache.private(cache, reference);
  return await useCached([known, own], reference.digest, { platform, clock });
}

/** Marks the blobs of an image as used, each in the first part that has it. */
export async function useCached(
  parts: readonly BlobCache[],
  root: string,
  { platform, clock }: { readonly platform: Platform; readonly clock: Clock },
): Promise<CachedImage> {
  const digests: string[] = [];
  const use = async (digest: string, size?: number): Promise<boolean> => {
    for (const part of parts) {
      const has =
        size === undefined || (await part.has({ digest, size, mediaType: "" }).catch(closed));
      if (has !== true || !(await part.markUsed(digest, clock))) continue;
      digests.push(digest);
      return true;
    }
    return false;
  };
  let digest = root;
  // The same depth as in a pull.
  for (let level = 0; level < 5; level++) {
    const document = await readDocument(parts, digest);
    if (!document || !(await use(digest))) break;
    if (document.kind === "manifest") {
      let isWhole = true;
      for (const blob of [document.config, ...document.layers])
        if (!(await use(blob.digest, blob.size))) isWhole = false;
      return { isWhole, digests };
    }
    const chosen = chosenOf(document, platform);
    if (chosen === undefined) break;
    digest = chosen;
  }
  return { isWhole: false, digests };
}

async function readDocument(
  parts: readonly BlobCache[],
  digest: string,
): Promise<Manifest | Index | undefined> {
  for (const part of parts) {
    try {
      const bytes = await part.readDocument(digest).catch(closed);
      if (bytes) return parseManifest(bytes, undefined);
    } catch (error) {
      // A blob that was just removed or is unreadable counts as missing.
      if (!ImageError.is(error, "IMAGE_INVALID")) throw error;
    }
  }
  return undefined;
}

function chosenOf({ manifests }: Index, platform: Platform): string | undefined {
  try {
    return choosePlatform(manifests, platform).digest;
  } catch (error) {
    if (ImageError.is(error, "IMAGE_NOT_FOUND")) return undefined;
    throw error;
  }
}

/** Undefined for a private part that this process may not enter. It is for other users. */
function closed(error: unknown): undefined {
  if (!isSystemError(error, "EACCES")) throw error;
}
