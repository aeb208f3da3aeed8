import { randomUUID } from "node:crypto";
import { lstat, readdir, rename, rm } from "node:fs/promises";
import path from "node:path";
import { createFile, hasCode, makeFolder, type Clock } from "@kip/base";
import { digestHex, digestOf, verified } from "../digest.ts";
import { invalidImage } from "../errors.ts";
import { maxDocumentBytes, type FetchedManifest, type ImageSource } from "../image-source.ts";
import { readBlob } from "../layout/layout-source.ts";
import { parseManifest, type Descriptor } from "../manifest.ts";
import { choosePlatform, type Platform } from "../platform.ts";
import { closeFolder, openChild, openFolder, self } from "../unpack/descriptor-path.ts";
import { doOnce } from "./fill-claim.ts";

/**
 * A folder of blobs and manifests by digest, `blobs/sha256/<hex>` as in an OCI layout, that many
 * machines share, for example over NFS, commonly read-only.
 *
 * It needs no lock to be right, and so none that NFS would have to keep: a blob is written under a name of its
 * own and gets its final one by a rename, and two that write the same write the same bytes. That each
 * blob is fetched once is seen to by {@link doOnce}. Nothing in it is believed: what is read is
 * checked like what a registry sends.
 */
export class BlobCache implements Disposable {
  readonly #root: string;
  readonly #folder: string;
  /** The folder of blobs, open, once something is written. */
  #open: number | undefined;
  /** Names in the folder, as of the first look. */
  #hidden: Promise<readonly string[]> | undefined;

  constructor(folder: string) {
    this.#root = folder;
    this.#folder = path.join(folder, "blobs", "sha256");
  }

  /**
   * The bytes of a blob; undefined if it is not here, or not of the size it must have.
   * @throws what the file system says when it does not work
   */
  async read(descriptor: Descriptor): Promise<AsyncIterable<Uint8Array> | undefined> {
    const facts = await lstat(this.#path(descriptor.digest)).catch((error: unknown) => {
      if (hasCode(error, "ENOENT", "ENOTDIR")) return undefined;
      throw error;
    });
    if (!facts?.isFile() || facts.size !== descriptor.size) return undefined;
    return readBlob(this.#root, descriptor);
  }

  async has({ digest, size }: Descriptor): Promise<boolean> {
    try {
      const facts = await lstat(this.#path(digest));
      return facts.isFile() && facts.size === size;
    } catch (error) {
      if (hasCode(error, "ENOENT")) return false;
      throw error;
    }
  }

  /** Whether a blob that is here has the content that it must have. */
  async isWhole(descriptor: Descriptor): Promise<boolean> {
    try {
      for await (const _ of verified(readBlob(this.#root, descriptor), descriptor));
      return true;
    } catch (error) {
      if (hasCode(error, "IMAGE_DIGEST_MISMATCH")) return false;
      throw error;
    }
  }

  /** Removes a blob that is wrong. A machine that reads it meanwhile turns to the registry. */
  async remove({ digest }: Descriptor): Promise<void> {
    await rm(this.#path(digest), { force: true });
  }

  /** Lets one of all who share the folder take a blob in; the others wait. @returns whether it was us */
  async takeOnce(
    descriptor: Descriptor,
    bytes: () => Promise<AsyncIterable<Uint8Array>>,
    options: { readonly clock: Clock; readonly signal?: AbortSignal | undefined },
  ): Promise<boolean> {
    if (await this.has(descriptor)) return false;
    let isOurs = false;
    await doOnce(path.join(await this.#place(), `.${digestHex(descriptor.digest)}.claim`), {
      ...options,
      isDone: async () => await this.has(descriptor),
      work: async () => {
        await this.#removeDrafts(descriptor);
        await this.write(descriptor, await bytes());
        isOurs = true;
      },
    });
    return isOurs;
  }

  /** Takes a blob in; it is there whole or not at all. */
  async write(descriptor: Descriptor, bytes: AsyncIterable<Uint8Array>): Promise<void> {
    const place = await this.#place();
    const draft = path.join(place, `${draftsOf(descriptor)}${randomUUID()}`);
    try {
      {
        await using file = await createFile(draft, 0o644);
        for await (const chunk of verified(bytes, descriptor)) await file.writeFile(chunk);
        // Another machine must not see the name before the bytes.
        await file.sync();
      }
      await rename(draft, path.join(place, digestHex(descriptor.digest))).catch(
        async (error: unknown) => {
          // One that was taken for dead finds that another has done it.
          if (!hasCode(error, "ENOENT") || !(await this.has(descriptor))) throw error;
        },
      );
    } finally {
      await rm(draft, { force: true });
    }
  }

  /** What those have left who held the claim before and were killed; found at the first look. */
  async #removeDrafts(descriptor: Descriptor): Promise<void> {
    const place = await this.#place();
    this.#hidden ??= readdir(place);
    for (const name of await this.#hidden) {
      if (name.startsWith(draftsOf(descriptor))) await rm(path.join(place, name), { force: true });
    }
  }

  /** The folder of blobs, to write in: made if it is missing, and not where a link of another filler leads. */
  async #place(): Promise<string> {
    if (this.#open === undefined) {
      await makeFolder(this.#folder, 0o755, { recursive: true });
      this.#open = openBelow(this.#root, ["blobs", "sha256"]);
    }
    return self(this.#open);
  }

  [Symbol.dispose](): void {
    if (this.#open !== undefined) closeFolder(this.#open);
    this.#open = undefined;
  }

  #path(digest: string): string {
    return path.join(this.#folder, digestHex(digest));
  }
}

function draftsOf({ digest }: Descriptor): string {
  return `.${digestHex(digest)}.draft-`;
}

/** Opens a folder step by step. @throws `ENOTDIR` if a step is a link */
function openBelow(root: string, steps: readonly string[]): number {
  let folder = openFolder(root);
  for (const step of steps) {
    const above = folder;
    try {
      folder = openChild(above, step);
    } finally {
      closeFolder(above);
    }
  }
  return folder;
}

/**
 * A source that takes what it can from a cache. What a name means is still the registry's word.
 * @param onHit told of each blob that came from the cache
 */
export function throughCache(source: ImageSource, folder: string, onHit: () => void): ImageSource {
  const cache = new BlobCache(folder);
  let isBroken = false;
  let turn: Promise<unknown> = Promise.resolve();
  // One at a time: where the server of a share is silent, each look holds one of Node's few threads for files.
  const find = async (descriptor: Descriptor): Promise<AsyncIterable<Uint8Array> | undefined> => {
    const look = turn.then(async () => (isBroken ? undefined : await cache.read(descriptor)));
    // Whatever is wrong with the cache, there is still the registry.
    const safe = look.catch(() => {
      isBroken = true;
      return undefined;
    });
    turn = safe;
    return await safe;
  };
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

/** Puts all of an image for one platform into a cache. @returns bytes that were new */
export async function fillCache(
  source: ImageSource,
  folder: string,
  options: {
    readonly platform: Platform;
    readonly clock: Clock;
    /** Whether what is there is checked, and replaced if it is wrong. */
    readonly verifies: boolean;
    readonly signal?: AbortSignal;
  },
): Promise<number> {
  using cache = new BlobCache(folder);
  let written = 0;
  const take = async (descriptor: Descriptor, bytes: () => Promise<AsyncIterable<Uint8Array>>) => {
    const isWrong =
      options.verifies && (await cache.has(descriptor)) && !(await cache.isWhole(descriptor));
    if (isWrong) await cache.remove(descriptor);
    if (await cache.takeOnce(descriptor, bytes, options)) written += descriptor.size;
  };
  let fetched = await source.root(options.signal);
  for (let level = 0; ; level++) {
    const parsed = parseManifest(fetched.bytes, fetched.mediaType);
    const { bytes, digest, mediaType = "" } = fetched;
    await take({ digest, mediaType, size: bytes.length }, async () => await once(bytes));
    if (parsed.kind === "manifest") {
      for (const blob of [parsed.config, ...parsed.layers]) {
        await take(blob, async () => await source.blob(blob, options.signal));
      }
      return written;
    }
    if (level === 4) throw invalidImage("its indexes are nested too deep");
    fetched = await source.manifest(
      choosePlatform(parsed.manifests, options.platform),
      options.signal,
    );
  }
}

async function readManifest(
  find: (descriptor: Descriptor) => Promise<AsyncIterable<Uint8Array> | undefined>,
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

async function once(bytes: Uint8Array): Promise<AsyncIterable<Uint8Array>> {
  return await Promise.resolve(
    (async function* () {
      yield await Promise.resolve(bytes);
    })(),
  );
}
