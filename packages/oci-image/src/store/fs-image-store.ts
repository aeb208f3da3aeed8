import { chmod, mkdir, rm } from "node:fs/promises";
import path from "node:path";
import { decode, type Clock, type Logger } from "@kip/base";
import { digestOf } from "../digest.ts";
import { failedTo } from "../errors.ts";
import type { FetchedManifest, ImageSource } from "../image-source.ts";
import { openLayout } from "../layout/layout-source.ts";
import { formatPlatform, hostPlatform, type Platform } from "../platform.ts";
import { formatReference, type Reference } from "../reference.ts";
import { openRegistry } from "../registry/registry-source.ts";
import { mountRootfs, unmountRootfs } from "../rootfs/mount-rootfs.ts";
import { defaultUnpackLimits, type UnpackLimits } from "../unpack/limits.ts";
import { fetchPlan, type ImagePlan } from "./fetch-image.ts";
import { fetchLayers } from "./fetch-layers.ts";
import { imageRecord, nameRecord, type ImageRecord } from "./image-record.ts";
import type {
  ImageStore,
  ImageStoreOptions,
  PulledImage,
  PullOptions,
  StoredImage,
} from "./image-store.ts";
import { KeyedLock } from "./keyed-lock.ts";
import { StoreFolder } from "./store-folder.ts";

/** Opens the store at `root`, making it if it is missing, and removes what killed pulls left. */
export async function openImageStore(options: ImageStoreOptions): Promise<ImageStore> {
  if (!path.isAbsolute(options.root) || /[,:\\]/.test(options.root)) {
    // They have a meaning of their own in the options of an overlay mount.
    throw new TypeError(
      `An image store needs an absolute path without , : and \\: ${options.root}`,
    );
  }
  const folder = new StoreFolder(options.root);
  await folder.prepare();
  return new FsImageStore(folder, options);
}

interface FetchOptions extends Omit<PullOptions, "registries"> {
  readonly platform: Platform;
}

class FsImageStore implements ImageStore {
  readonly #folder: StoreFolder;
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #limits: UnpackLimits;
  readonly #makesDevices: boolean;
  readonly #lock = new KeyedLock();

  constructor(folder: StoreFolder, options: ImageStoreOptions) {
    this.#folder = folder;
    this.#logger = options.logger.with({ component: "oci-image" });
    this.#clock = options.clock;
    this.#limits = { ...defaultUnpackLimits, ...options.limits };
    this.#makesDevices = options.makesDevices ?? false;
  }

  async find(reference: Reference): Promise<StoredImage | undefined> {
    const name = formatReference(reference);
    const found = read(nameRecord, this.#folder.readRecord("names", name));
    if (!found || found.name !== name) return undefined;
    const image = this.#knownImage(found.image);
    return image && this.#describe(reference, found.digest, image);
  }

  async pull(reference: Reference, options: PullOptions): Promise<PulledImage> {
    const platform = options.platform ?? hostPlatform();
    const name = formatReference(reference);
    try {
      await using registry = openRegistry(reference, options.registries, {
        retry: {
          clock: this.#clock,
          ...(options.attempts !== undefined && { attempts: options.attempts }),
        },
        ...(options.proxy && { proxy: options.proxy }),
      });
      return await this.#take(registry, reference, { ...options, platform });
    } catch (error) {
      options.signal?.throwIfAborted();
      throw failedTo(`pull image "${name}"`, error);
    }
  }

  async importLayout(
    layoutDir: string,
    reference: Reference,
    options: { readonly platform?: Platform; readonly signal?: AbortSignal } = {},
  ): Promise<StoredImage> {
    const platform = options.platform ?? hostPlatform();
    try {
      const layout = openLayout(layoutDir, reference);
      return await this.#take(layout, reference, { ...options, platform });
    } catch (error) {
      options.signal?.throwIfAborted();
      throw failedTo(
        `import image "${formatReference(reference)}" of layout "${layoutDir}"`,
        error,
      );
    }
  }

  async mountRootfs(
    image: StoredImage,
    containerDir: string,
  ): Promise<{ readonly rootfs: string }> {
    return await mountRootfs(image.layers, containerDir);
  }

  async unmountRootfs(containerDir: string): Promise<void> {
    await unmountRootfs(containerDir);
  }

  /** Gets what is not here yet, and lets the name stand for it. */
  async #take(
    source: ImageSource,
    reference: Reference,
    options: FetchOptions,
  ): Promise<PulledImage> {
    const start = this.#clock.monotonic();
    let downloaded = start;
    const root = await source.root(options.signal);
    const key = `${root.digest} ${formatPlatform(options.platform)}`;
    const known = this.#knownImage(key);
    const onDownloaded = (): void => void (downloaded = this.#clock.monotonic());
    if (known) onDownloaded();
    const image = known ?? (await this.#fetch(source, root, key, { ...options, onDownloaded }));
    this.#nameImage(reference, root.digest, key);
    const timingsMs = {
      pull: downloaded - start,
      unpack: this.#clock.monotonic() - downloaded,
    };
    const stored = this.#describe(reference, root.digest, image);
    if (!known) {
      this.#logger.info("Image unpacked", { image: stored.reference, ...timingsMs });
      for (const note of stored.notes) {
        this.#logger.warn("Image not unpacked whole", { image: stored.reference, note });
      }
    }
    return { ...stored, timingsMs };
  }

  async #fetch(
    source: ImageSource,
    root: FetchedManifest,
    key: string,
    options: FetchOptions & { readonly onDownloaded: () => void },
  ): Promise<ImageRecord> {
    const plan = await fetchPlan(source, root, { ...options, limits: this.#limits });
    options.onDownloaded();
    const treeId = digestOf(plan.layers.map(({ diffId }) => diffId).join("\n"));
    const notes = await this.#lock.run(treeId, async () => {
      options.signal?.throwIfAborted();
      return this.#knownNotes(treeId) ?? (await this.#unpack(source, plan, treeId, options));
    });
    const image = { id: plan.id, config: plan.config, treeId, sizeBytes: plan.sizeBytes, notes };
    this.#folder.writeRecord("images", key, image);
    return image;
  }

  /** What was left out of a tree when it was unpacked; undefined if there is no such tree. */
  #knownNotes(treeId: string): readonly string[] | undefined {
    if (!this.#folder.hasTree(treeId)) return undefined;
    return read(decode.list(decode.string), this.#folder.readRecord("images", treeId)) ?? [];
  }

  async #unpack(
    source: ImageSource,
    plan: ImagePlan,
    treeId: string,
    options: FetchOptions & { readonly onDownloaded: () => void },
  ): Promise<readonly string[]> {
    const work = this.#folder.makeWorkFolder();
    try {
      const tree = path.join(work, "tree");
      await mkdir(tree);
      await chmod(tree, 0o755);
      const notes = await fetchLayers(source, plan.layers, {
        ...options,
        tree,
        spoolFolder: work,
        limits: this.#limits,
        makesDevices: this.#makesDevices,
      });
      this.#folder.writeRecord("images", treeId, notes);
      this.#folder.publishTree(tree, treeId);
      return notes;
    } finally {
      await rm(work, { recursive: true, force: true });
    }
  }

  #knownImage(key: string): ImageRecord | undefined {
    const image = read(imageRecord, this.#folder.readRecord("images", key));
    return image && this.#folder.hasTree(image.treeId) ? image : undefined;
  }

  /**
   * Only the very name that was asked for, and its repository with the digest, come to stand for an
   * image: what an image or a layout says of itself names nothing (CVE-2026-50195).
   */
  #nameImage(reference: Reference, digest: string, image: string): void {
    const { registry, repository } = reference;
    const names = [formatReference(reference), formatReference({ registry, repository, digest })];
    for (const name of new Set(names)) {
      this.#folder.writeRecord("names", name, { name, digest, image });
    }
  }

  #describe(reference: Reference, digest: string, image: ImageRecord): StoredImage {
    const { registry, repository } = reference;
    return {
      id: image.id,
      repoDigest: formatReference({ registry, repository, digest }),
      reference: formatReference(reference),
      config: image.config,
      layers: [this.#folder.treePath(image.treeId)],
      sizeBytes: image.sizeBytes,
      notes: image.notes,
    };
  }
}

/** A record of this version of the store; anything else counts as absent, and is fetched again. */
function read<T>(decoder: (value: unknown, path: string) => T, record: unknown): T | undefined {
  if (record === undefined) return undefined;
  try {
    return decoder(record, "");
  } catch {
    return undefined;
  }
}
