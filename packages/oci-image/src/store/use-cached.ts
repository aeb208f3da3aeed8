import { isSystemError, type Clock } from "@kip/base";
import { ImageError } from "../errors.ts";
import { parseManifest, type Index, type Manifest } from "../manifest.ts";
import { choosePlatform, hostPlatform, type Platform } from "../platform.ts";
import type { Reference } from "../reference.ts";
import { BlobCache } from "./blob-cache.ts";

/** What a shared cache has of an image. */
export interface CachedImage {
  /** Whether a pull for the platform needs no blob from the registry. */
  readonly isWhole: boolean;
  /** Digests of the image's manifests and blobs that are there. */
  readonly digests: readonly string[];
}

/**
 * Notes in a shared cache that an image is used, of which the digest is known, and finds what of it is there. Asks no registry.
 *
 * @param reference with a digest; without one nothing is found
 * @param options.platform of an index, the image for this one. @default this machine's
 * @throws what the file system says when it does not work
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

/** Notes that an image is used in the first of some parts that has it, blob by blob. */
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
  // As deep as a pull goes.
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
      // One that was removed just now, or cannot be read, is as good as none.
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

/** Private parts may be closed to us: what is there is for others. */
function closed(error: unknown): undefined {
  if (!isSystemError(error, "EACCES")) throw error;
}
