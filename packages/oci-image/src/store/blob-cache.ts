import { randomUUID } from "node:crypto";
import { lstat, readdir, rename, rm, utimes } from "node:fs/promises";
import path from "node:path";
import { createFile, isSystemError, makeFolder, type Clock } from "@kip/base";
import { digestHex, digestOf, verified } from "../digest.ts";
import { ImageError } from "../errors.ts";
import { maxDocumentBytes } from "../image-source.ts";
import { readBlob } from "../layout/layout-source.ts";
import type { Descriptor } from "../manifest.ts";
import type { Reference } from "../reference.ts";
import { closeFolder, self } from "../unpack/descriptor-path.ts";
import { blobSteps, openPart, privateFolder } from "./cache-part.ts";
import { doOnce } from "./fill-claim.ts";

/**
 * A part of a folder that many machines share, for example over NFS, commonly read-only: blobs and manifests by
 * digest, `blobs/sha256/<hex>` as in an OCI layout. The public part holds images that anybody may have; each
 * repository whose images take a log-in has a private part of its own.
 *
 * It needs no lock to be right, and so none that NFS would have to keep: a blob is written under a name of its
 * own and gets its final one by a rename, and two that write the same write the same bytes. That each
 * blob is fetched once is seen to by {@link doOnce}. Nothing in it is believed: what is read is
 * checked like what a registry sends.
 */
export class BlobCache implements Disposable {
  readonly #shared: string;
  /** Folders from the shared one down to this part. */
  readonly #steps: readonly string[];
  readonly #root: string;
  readonly #folder: string;
  /** The folder of blobs, open, once something is written. */
  #open: number | undefined;
  /** Names in the folder, as of the first look. */
  #hidden: Promise<readonly string[]> | undefined;

  private constructor(shared: string, steps: readonly string[]) {
    this.#shared = shared;
    this.#steps = steps;
    this.#root = path.join(shared, ...steps);
    this.#folder = path.join(this.#root, ...blobSteps);
  }

  /** What anybody may have. */
  static public(shared: string): BlobCache {
    return new BlobCache(shared, []);
  }

  /**
   * For pulls that the registry lets read one repository. A digest alone must not be enough for pulls of other
   * repositories, so they get nothing of it.
   */
  static private(shared: string, { registry, repository }: Reference): BlobCache {
    const key = digestHex(digestOf(`${registry}/${repository}`));
    return new BlobCache(shared, [privateFolder, key]);
  }

  /**
   * The bytes of a blob; undefined if it is not here, or not of the size it must have.
   * @throws what the file system says when it does not work
   */
  async read(descriptor: Descriptor): Promise<AsyncIterable<Uint8Array> | undefined> {
    const facts = await lstat(this.#path(descriptor.digest)).catch(absent);
    if (!facts?.isFile() || facts.size !== descriptor.size) return undefined;
    return readBlob(this.#root, descriptor);
  }

  async has({ digest, size }: Descriptor): Promise<boolean> {
    const facts = await lstat(this.#path(digest)).catch(absent);
    return facts !== undefined && facts.isFile() && facts.size === size;
  }

  /**
   * A manifest or an index of which nothing is known but its digest, checked; undefined if it is not here whole.
   * @throws what the file system says when it does not work
   */
  async readDocument(digest: string): Promise<Uint8Array | undefined> {
    const facts = await lstat(this.#path(digest)).catch(absent);
    if (!facts?.isFile() || facts.size > maxDocumentBytes) return undefined;
    const chunks: Uint8Array[] = [];
    for await (const chunk of readBlob(this.#root, { digest, mediaType: "", size: facts.size }))
      chunks.push(chunk);
    const bytes = Buffer.concat(chunks);
    return digestOf(bytes) === digest ? bytes : undefined;
  }

  /**
   * Notes that a blob is used, by its time: {@link collectCache} removes those that were not for long. Of a blob that belongs
   * to another user the time stays as it is.
   *
   * @returns whether the blob is here
   */
  async markUsed(digest: string, clock: Clock): Promise<boolean> {
    const seconds = clock.now() / 1000;
    try {
      await utimes(this.#path(digest), seconds, seconds);
      return true;
    } catch (error) {
      if (isSystemError(error, "EPERM", "EROFS")) return true;
      // The last one: behind a folder that is closed to us.
      if (isSystemError(error, "ENOENT", "ENOTDIR", "EACCES")) return false;
      throw error;
    }
  }

  /** Whether a blob that is here has the content that it must have. */
  async isWhole(descriptor: Descriptor): Promise<boolean> {
    try {
      for await (const _ of verified(readBlob(this.#root, descriptor), descriptor));
      return true;
    } catch (error) {
      if (ImageError.is(error, "IMAGE_DIGEST_MISMATCH")) return false;
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
          if (!isSystemError(error, "ENOENT") || !(await this.has(descriptor))) throw error;
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
      await makeFolder(this.#shared, 0o755, { recursive: true });
      this.#open = openPart(this.#shared, [...this.#steps, ...blobSteps], "make");
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

/** Nothing, where there is no such file. */
function absent(error: unknown): undefined {
  if (!isSystemError(error, "ENOENT", "ENOTDIR")) throw error;
}
