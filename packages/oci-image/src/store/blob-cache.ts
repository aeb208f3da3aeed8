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
 * A part of a folder that many machines share, for example over NFS, often read-only. It contains blobs and manifests by
 * digest, `blobs/sha256/<hex>` as in an OCI layout. The public part holds public images. Each repository with private images
 * has a private part of its own.
 *
 * It does not rely on locks, and so needs none from NFS. A blob is written under a unique name and then renamed, and two
 * writers of the same blob write the same bytes. {@link doOnce} makes sure that each blob is usually downloaded once. The
 * content is not trusted: it is verified like a registry's.
 */
export class BlobCache implements Disposable {
  readonly #shared: string;
  /** Folders from the shared folder to this part. */
  readonly #steps: readonly string[];
  readonly #root: string;
  readonly #folder: string;
  /** The folder of blobs. Open once something was written. */
  #open: number | undefined;
  /** Temporary names in the folder, from the first listing. */
  #hidden: Promise<readonly string[]> | undefined;

  private constructor(shared: string, steps: readonly string[]) {
    this.#shared = shared;
    this.#steps = steps;
    this.#root = path.join(shared, ...steps);
    this.#folder = path.join(this.#root, ...blobSteps);
  }

  /** The public part. */
  static public(shared: string): BlobCache {
    return new BlobCache(shared, []);
  }

  /**
   * The private part for a repository. Only pulls for which the registry allows access to this repository may use it. Knowing a
   * digest must not be enough, so pulls from other repositories cannot use it.
   */
  static private(shared: string, { registry, repository }: Reference): BlobCache {
    const key = digestHex(digestOf(`${registry}/${repository}`));
    return new BlobCache(shared, [privateFolder, key]);
  }

  /**
   * The bytes of a blob. Undefined if it is missing or has the wrong size.
   *
   * @throws errors of a file system that does not work
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
   * A verified manifest or index, for which only the digest is known. Undefined if it is missing or incomplete.
   *
   * @throws errors of a file system that does not work
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
   * Marks a blob as used by setting its time. {@link collectCache} removes blobs that were not used for long. The time of
   * another user's blob does not change.
   *
   * @returns whether the blob exists
   */
  async markUsed(digest: string, clock: Clock): Promise<boolean> {
    const seconds = clock.now() / 1000;
    try {
      await utimes(this.#path(digest), seconds, seconds);
      return true;
    } catch (error) {
      if (isSystemError(error, "EPERM", "EROFS")) return true;
      // EACCES: it is inside a folder that this process may not enter.
      if (isSystemError(error, "ENOENT", "ENOTDIR", "EACCES")) return false;
      throw error;
    }
  }

  /** Whether an existing blob has the expected content. */
  async isWhole(descriptor: Descriptor): Promise<boolean> {
    try {
      for await (const _ of verified(readBlob(this.#root, descriptor), descriptor));
      return true;
    } catch (error) {
      if (ImageError.is(error, "IMAGE_DIGEST_MISMATCH")) return false;
      throw error;
    }
  }

  /** Removes an invalid blob. A machine that is reading it then uses the registry. */
  async remove({ digest }: Descriptor): Promise<void> {
    await rm(this.#path(digest), { force: true });
  }

  /** Lets one process of all machines write a blob, while the others wait. @returns whether it was this process */
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

  /** Writes a blob. It appears complete or not at all. */
  async write(descriptor: Descriptor, bytes: AsyncIterable<Uint8Array>): Promise<void> {
    const place = await this.#place();
    const draft = path.join(place, `${draftsOf(descriptor)}${randomUUID()}`);
    try {
      {
        await using file = await createFile(draft, 0o644);
        for await (const chunk of verified(bytes, descriptor)) await file.writeFile(chunk);
        // Other machines must not see the name before the bytes.
        await file.sync();
      }
      await rename(draft, path.join(place, digestHex(descriptor.digest))).catch(
        async (error: unknown) => {
          // This process was considered dead, and another one has written the blob.
          if (!isSystemError(error, "ENOENT") || !(await this.has(descriptor))) throw error;
        },
      );
    } finally {
      await rm(draft, { force: true });
    }
  }

  /** Removes drafts of earlier processes that held the claim and were killed. They are found in the first listing. */
  async #removeDrafts(descriptor: Descriptor): Promise<void> {
    const place = await this.#place();
    this.#hidden ??= readdir(place);
    for (const name of await this.#hidden) {
      if (name.startsWith(draftsOf(descriptor))) await rm(path.join(place, name), { force: true });
    }
  }

  /** The folder of blobs, for writing. Created if missing. Does not follow another process's links. */
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

/** Undefined for a missing file. */
function absent(error: unknown): undefined {
  if (!isSystemError(error, "ENOENT", "ENOTDIR")) throw error;
}
