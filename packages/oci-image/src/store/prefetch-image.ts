import { systemClock, type Clock } from "@kip/base";
import { failedTo, ImageError, writeFailure } from "../errors.ts";
import { hostPlatform } from "../platform.ts";
import { formatReference, type Reference } from "../reference.ts";
import { askAnonymously, openRegistry } from "../registry/registry-source.ts";
import { BlobCache } from "./blob-cache.ts";
import { fillCache, type Prefetched } from "./fill-cache.ts";
import type { PullOptions } from "./image-store.ts";
import { useCached } from "./use-cached.ts";

/** Options of {@link prefetchImage}. */
export interface PrefetchOptions extends Pick<
  PullOptions,
  "registries" | "platform" | "attempts" | "proxy" | "signal"
> {
  /** Whether to verify existing blobs and download invalid ones again. @default false */
  readonly verifies?: boolean | undefined;
  /**
   * Whether images that require a log-in are included. Pulls from other repositories cannot use them, but root on every machine
   * with the folder can read them. @default false
   */
  readonly allowsPrivate?: boolean | undefined;
  /** Minimum rate over a minute, below which a registry is given up. @default 1024 */
  readonly leastBytesPerSecond?: number | undefined;
  /** Called with the name's digest if blobs are missing, before they are downloaded. */
  readonly onDigest?: ((digest: string) => void) | undefined;
  /** @default the system clock */
  readonly clock?: Clock | undefined;
}

/**
 * Puts an image's blobs into a folder that other machines pull from (`PullOptions.cache`). Several processes may fill one
 * folder at once, also on NFS: one of them downloads each blob, to a temporary name, and renames it when it is complete.
 * Existing blobs are marked as used, see {@link collectCache}.
 *
 * If an image with a digest is already there, no registry is asked. If one with a tag is there, the registry is only asked what
 * the tag refers to.
 *
 * @throws {ImageError} the codes of `ImageStore.pull`; `IMAGE_PRIVATE` if the image requires a log-in
 *
 * @example
 * ```ts
 * import { mkdtempDisposable } from "node:fs/promises";
 * import { parseReference, prefetchImage } from "@kip/oci-image";
 * import { startLayoutRegistry, tar, writeLayout } from "@kip/testing";
 *
 * await using folder = await mkdtempDisposable("/tmp/kip-example-");
 * writeLayout(`${folder.path}/layout`, { layers: [tar([{ name: "motd", content: "hello" }])] });
 * await using registry = await startLayoutRegistry(`${folder.path}/layout`);
 * const { host, endpoint } = registry;
 *
 * const cache = `${folder.path}/cache`;
 * const prefetch = async () =>
 *   await prefetchImage(parseReference(`${host}/app:1`), cache, { registries: [{ host, endpoint }] });
 * assert.ok((await prefetch()).writtenBytes > 0);
 * assert.equal((await prefetch()).writtenBytes, 0); // it is there
 * ```
 */
export async function prefetchImage(
  reference: Reference,
  cache: string,
  options: PrefetchOptions,
): Promise<Prefetched> {
  const { attempts, proxy, signal, verifies = false, allowsPrivate = false } = options;
  const { leastBytesPerSecond, onDigest, clock = systemClock } = options;
  const registry = { retry: { clock, attempts }, proxy, leastBytesPerSecond };
  try {
    using known = BlobCache.public(cache);
    using own = BlobCache.private(cache, reference);
    const platform = options.platform ?? hostPlatform();
    const how = { platform, verifies, clock, onDigest, signal };
    const isWhole = async (digest: string | undefined, parts: readonly BlobCache[]) =>
      digest !== undefined && !verifies && (await useCached(parts, digest, how)).isWhole;
    const there = (digest: string): Prefetched => ({ digest, writtenBytes: 0 });
    const { digest } = reference;
    if (await isWhole(digest, allowsPrivate ? [known, own] : [known])) return there(digest ?? "");
    const answer = await askAnonymously(reference, options.registries, {
      ...registry,
      signal,
    }).catch((error: unknown) => {
      signal?.throwIfAborted();
      // The registry itself may be unreachable while there are mirrors.
      if (allowsPrivate) return { isPublic: false } as const;
      throw error;
    });
    if (answer.isPublic && (await isWhole(answer.digest, [known]))) return there(answer.digest);
    // A mirror's content for a public name need not be public. So only request the digest that the registry gave.
    const wanted = answer.isPublic ? { ...reference, digest: answer.digest } : reference;
    await using source = openRegistry(wanted, options.registries, registry);
    if (answer.isPublic) return await fillCache(source, known, how);
    if (allowsPrivate) return await fillCache(source, own, { ...how, known });
    // After the log-in it may turn out that the image does not exist.
    await source.root(signal);
    throw privateImage();
  } catch (error) {
    signal?.throwIfAborted();
    throw failedTo(`prefetch image "${formatReference(reference)}"`, writeFailure(error));
  }
}

function privateImage(): Error {
  const reason =
    "it is private, and root on every machine that has the cache can read what is in it";
  return new ImageError("IMAGE_PRIVATE", reason, {
    remedy: "Leave it out, or allow private images (tosi prefetch -private)",
  });
}
