import type { Clock } from "@kip/base";
import { invalidImage } from "../errors.ts";
import type { ImageSource } from "../image-source.ts";
import { parseManifest, type Descriptor } from "../manifest.ts";
import { choosePlatform, type Platform } from "../platform.ts";
import { defaultUnpackLimits } from "../unpack/limits.ts";
import type { BlobCache } from "./blob-cache.ts";
import { checkLimits } from "./fetch-image.ts";

/** The result of putting an image into a shared cache. */
export interface Prefetched {
  /** Digest of the manifest or index that the name refers to. */
  readonly digest: string;
  /** Number of bytes that were written. */
  readonly writtenBytes: number;
}

/**
 * Puts all blobs of an image for one platform into a part of a cache.
 *
 * @param known another part. Blobs in it are skipped
 * @returns the digest that the name refers to, and the number of new bytes
 */
export async function fillCache(
  source: ImageSource,
  cache: BlobCache,
  options: {
    readonly known?: BlobCache | undefined;
    readonly platform: Platform;
    readonly clock: Clock;
    /** Whether to verify existing blobs and replace invalid ones. */
    readonly verifies: boolean;
    /** Called with the name's digest, before blobs are downloaded. */
    readonly onDigest?: ((digest: string) => void) | undefined;
    readonly signal?: AbortSignal | undefined;
  },
): Promise<Prefetched> {
  const { known, verifies } = options;
  let written = 0;
  const hasGood = async (part: BlobCache, descriptor: Descriptor): Promise<boolean> =>
    (await part.has(descriptor)) &&
    (!verifies || (await part.isWhole(descriptor))) &&
    (await part.markUsed(descriptor.digest, options.clock));
  const take = async (descriptor: Descriptor, bytes: () => Promise<AsyncIterable<Uint8Array>>) => {
    if (known && (await hasGood(known, descriptor))) return;
    if (await hasGood(cache, descriptor)) return;
    if (verifies) await cache.remove(descriptor);
    if (await cache.takeOnce(descriptor, bytes, options)) written += descriptor.size;
  };
  let fetched = await source.root(options.signal);
  const root = fetched.digest;
  options.onDigest?.(root);
  for (let level = 0; ; level++) {
    const parsed = parseManifest(fetched.bytes, fetched.mediaType);
    const { bytes, digest, mediaType = "" } = fetched;
    await take({ digest, mediaType, size: bytes.length }, async () => await once(bytes));
    if (parsed.kind === "manifest") {
      checkLimits(parsed, defaultUnpackLimits);
      for (const blob of [parsed.config, ...parsed.layers]) {
        await take(blob, async () => await source.blob(blob, options.signal));
      }
      return { digest: root, writtenBytes: written };
    }
    if (level === 4) throw invalidImage("its indexes are nested too deep");
    fetched = await source.manifest(
      choosePlatform(parsed.manifests, options.platform),
      options.signal,
    );
  }
}

async function once(bytes: Uint8Array): Promise<AsyncIterable<Uint8Array>> {
  return await Promise.resolve(
    (async function* () {
      yield await Promise.resolve(bytes);
    })(),
  );
}
