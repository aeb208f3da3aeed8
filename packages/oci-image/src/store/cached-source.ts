import { isSystemError, SerialQueue } from "@kip/base";
import { digestOf } from "../digest.ts";
import { maxDocumentBytes, type FetchedManifest, type ImageSource } from "../image-source.ts";
import type { Descriptor } from "../manifest.ts";
import type { BlobCache } from "./blob-cache.ts";

type Find = (descriptor: Descriptor) => Promise<AsyncIterable<Uint8Array> | undefined>;

/**
 * A source that takes what it can from a cache. What a name means is always asked of the registry, which
 * says by its answer that the caller may have what is in the repository.
 *
 * @param parts of the cache that belong to anybody, or to the repository that `source` pulls from; asked in turn
 * @param onHit told of each blob that came from the cache
 */
export function throughCache(
  source: ImageSource,
  parts: readonly BlobCache[],
  onHit: () => void,
): ImageSource {
  const find = firstOf(parts);
  return {
    root: async (signal) => await source.root(signal),
    manifest: async (descriptor, signal) => {
      // One that cannot be read is as good as none.
      const found = await readManifest(find, descriptor).catch(() => undefined);
      if (found) onHit();
      return found ?? (await source.manifest(descriptor, signal));
    },
    blob: async (descriptor, signal) => {
      const found = await find(descriptor);
      if (found) onHit();
      return found ?? (await source.blob(descriptor, signal));
    },
  };
}

/** One look at a time: where the server of a share is silent, each holds one of Node's few threads for files. */
function firstOf(parts: readonly BlobCache[]): Find {
  const usable = new Set(parts);
  const look: Find = async (descriptor) => {
    for (const part of usable) {
      try {
        const found = await part.read(descriptor);
        if (found) return found;
      } catch (error) {
        // Whatever is wrong with the cache, there is still the registry.
        if (isSystemError(error, "EACCES", "EPERM")) usable.delete(part);
        else usable.clear();
      }
    }
    return undefined;
  };
  const queue = new SerialQueue();
  return async (descriptor) => await queue.run(async () => await look(descriptor));
}

async function readManifest(
  find: Find,
  descriptor: Descriptor,
): Promise<FetchedManifest | undefined> {
  if (descriptor.size > maxDocumentBytes) return undefined;
  const stream = await find(descriptor);
  if (!stream) return undefined;
  const chunks: Uint8Array[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  const bytes = Buffer.concat(chunks);
  const { digest, mediaType } = descriptor;
  return digestOf(bytes) === digest ? { bytes, digest, mediaType } : undefined;
}
