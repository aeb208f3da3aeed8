import { isSystemError, SerialQueue } from "@kip/base";
import { digestOf } from "../digest.ts";
import { maxDocumentBytes, type FetchedManifest, type ImageSource } from "../image-source.ts";
import type { Descriptor } from "../manifest.ts";
import type { BlobCache } from "./blob-cache.ts";

type Find = (descriptor: Descriptor) => Promise<AsyncIterable<Uint8Array> | undefined>;

/**
 * A source that uses a cache where possible. It always asks the registry what a name refers to. The registry's answer also
 * shows that the caller may read the repository.
 *
 * @param parts the public part of the cache, and that of the repository that `source` pulls from, tried in order
 * @param onHit called for each blob that comes from the cache
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
      // An unreadable one counts as missing.
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

/** One at a time: if the share's server does not answer, each read blocks one of Node's few I/O threads. */
function firstOf(parts: readonly BlobCache[]): Find {
  const usable = new Set(parts);
  const look: Find = async (descriptor) => {
    for (const part of usable) {
      try {
        const found = await part.read(descriptor);
        if (found) return found;
      } catch (error) {
        // Whatever is wrong with the cache, the registry is still available.
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
