import path from "node:path";
import {
  decode,
  makeFolderSync,
  SerialQueue,
  type Clock,
  type Logger,
  type Mount,
} from "@kip/base";
import { digestHex, digestOf, isDigest } from "../digest.ts";
import { failedTo, ImageError, writeFailure } from "../errors.ts";
import type { FetchedManifest, ImageSource } from "../image-source.ts";
import { openLayout } from "../layout/layout-source.ts";
import { formatPlatform, hostPlatform, isWrongPlatform, type Platform } from "../platform.ts";
import { formatReference, type Reference } from "../reference.ts";
import type { RegistryConfig } from "../registry/registry-config.ts";
import { openRegistry } from "../registry/registry-source.ts";
import { mountRootfs, unmountRootfs } from "../rootfs/mount-rootfs.ts";
import { defaultUnpackLimits, type UnpackLimits } from "../unpack/limits.ts";
import { removeFolder } from "../unpack/remove-tree.ts";
import { BlobCache } from "./blob-cache.ts";
import { throughCache } from "./cached-source.ts";
import { collect, type Collected, type CollectOptions } from "./collect.ts";
import { findDifference } from "./compare-trees.ts";
import { fetchPlan, type ImagePlan } from "./fetch-image.ts";
import { imageRecord, nameRecord, type ImageRecord } from "./image-record.ts";
import type {
  ImageStoreOptions,
  ListedImage,
  ManagedImageStore,
  PulledImage,
  PullOptions,
  StoredImage,
} from "./image-store.ts";
import { isMountedTree } from "./mounted-trees.ts";
import { StoreFolder } from "./store-folder.ts";

/**
 * Opens the store at `root`, creating it if it is missing. Removes the files of killed pulls.
 *
 * @example
 * ```ts
 * import { mkdtempDisposable, readFile } from "node:fs/promises";
 * import { silentLogger, systemClock } from "@kip/base";
 * import { openImageStore, parseReference } from "@kip/oci-image";
 * import { startLayoutRegistry, tar, writeLayout } from "@kip/testing";
 *
 * await using folder = await mkdtempDisposable("/tmp/kip-example-");
 * // Any registry will do; this one has an image with one file.
 * writeLayout(`${folder.path}/layout`, { layers: [tar([{ name: "motd", content: "hello" }])] });
 * await using registry = await startLayoutRegistry(`${folder.path}/layout`);
 * const { host, endpoint } = registry;
 *
 * const root = `${folder.path}/store`;
 * const store = await openImageStore({ root, logger: silentLogger, clock: systemClock });
 * const image = await store.pull(parseReference(`${host}/app:1`), { registries: [{ host, endpoint }] });
 * assert.equal(await readFile(`${image.layers[0]}/motd`, "utf8"), "hello");
 * assert.deepEqual(image.config.cmd, ["/bin/true"]);
 * // As root: await store.mountRootfs(image, "/run/app") makes a root file system to write in.
 * ```
 */
export async function openImageStore(options: ImageStoreOptions): Promise<ManagedImageStore> {
  if (!path.isAbsolute(options.root) || /[,:\\]/.test(options.root)) {
    // These characters are special in the options of an overlay mount.
    throw new TypeError(
      `An image store needs an absolute path without , : and \\: ${options.root}`,
    );
  }
  const folder = new StoreFolder(options.root, options.clock);
  await folder.prepare();
  return new FsImageStore(folder, options);
}

/** Errors that a mirror may have caused. Its data are unpacked as they arrive, before their digest is known. */
const mirrorsFaults = [
  "IMAGE_DIGEST_MISMATCH",
  "IMAGE_INVALID",
  "IMAGE_LIMIT_EXCEEDED",
  "IMAGE_UNSAFE_ENTRY",
] as const;

interface FetchOptions extends Omit<PullOptions, "registries"> {
  readonly platform: Platform;
}

class FsImageStore implements ManagedImageStore {
  readonly #folder: StoreFolder;
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #limits: UnpackLimits;
  readonly #makesDevices: boolean;
  /** Suffix of the keys of everything with device nodes. Without them, the same image has another tree. */
  readonly #variant: string;
  readonly #mount: Mount | undefined;
  /** Serialises unpacking, by tree. */
  readonly #queue = new SerialQueue();

  constructor(folder: StoreFolder, options: ImageStoreOptions) {
    this.#folder = folder;
    this.#logger = options.logger.with({ component: "oci-image" });
    this.#clock = options.clock;
    this.#mount = options.mount;
    this.#limits = { ...defaultUnpackLimits, ...options.limits };
    this.#makesDevices = options.makesDevices ?? false;
    this.#variant = this.#makesDevices ? " with devices" : "";
  }

  async find(reference: Reference): Promise<StoredImage | undefined> {
    const name = formatReference(reference);
    const found = read(nameRecord, this.#folder.readRecord("names", name + this.#variant));
    if (!found || found.name !== name) return undefined;
    const image = this.#knownImage(found.image);
    return image && this.#describe(reference, found.digest, image);
  }

  async pull(reference: Reference, options: PullOptions): Promise<PulledImage> {
    const platform = options.platform ?? hostPlatform();
    const name = formatReference(reference);
    const take = async (settings: PullOptions): Promise<PulledImage> => {
      await using registry = this.#openRegistry(reference, settings);
      return await this.#takeCached(registry, reference, { ...settings, platform });
    };
    try {
      return await take(options).catch(async (error: unknown) => {
        options.signal?.throwIfAborted();
        const registries = withoutMirrors(options.registries, reference.registry);
        const isMirrorsFault = ImageError.is(error, ...mirrorsFaults) || isWrongPlatform(error);
        if (!registries || !isMirrorsFault) throw error;
        this.#logger.warn("Could not pull from mirrors", { image: name, err: error });
        return await take({ ...options, registries });
      });
    } catch (error) {
      options.signal?.throwIfAborted();
      throw failedTo(`pull image "${name}"`, writeFailure(error));
    }
  }

  async importLayout(
    layoutDir: string,
    reference: Reference,
    options: {
      readonly platform?: Platform | undefined;
      readonly signal?: AbortSignal | undefined;
    } = {},
  ): Promise<StoredImage> {
    const platform = options.platform ?? hostPlatform();
    try {
      const layout = openLayout(layoutDir, reference);
      return await this.#take(layout, reference, { ...options, platform });
    } catch (error) {
      options.signal?.throwIfAborted();
      throw failedTo(
        `import image "${formatReference(reference)}" of layout "${layoutDir}"`,
        writeFailure(error),
      );
    }
  }

  async mountRootfs(
    image: StoredImage,
    containerDir: string,
    users?: string,
  ): Promise<{ readonly rootfs: string }> {
    for (const layer of image.layers) {
      const treeId = `sha256:${path.basename(layer)}`;
      if (isDigest(treeId)) this.#folder.markUsed(treeId, this.#clock.now());
    }
    return await mountRootfs(image.layers, containerDir, { by: this.#mount, users });
  }

  async unmountRootfs(containerDir: string): Promise<void> {
    await unmountRootfs(containerDir);
  }

  async list(): Promise<readonly ListedImage[]> {
    const found = this.#folder.listNames().flatMap((record) => {
      const name = read(nameRecord, record);
      const image = name && this.#knownImage(name.image);
      if (!image) return [];
      const { id, sizeBytes } = image;
      return [{ reference: name.name, digest: name.digest, id, sizeBytes }];
    });
    return await Promise.resolve(found.sort((a, b) => (a.reference < b.reference ? -1 : 1)));
  }

  async collect(options: CollectOptions): Promise<Collected> {
    return await collect(this.#folder, options, this.#clock.now());
  }

  async verify(reference: Reference, options: PullOptions): Promise<string | undefined> {
    const platform = options.platform ?? hostPlatform();
    const pulled = await this.pull(reference, options);
    const work = this.#folder.makeWorkFolder();
    try {
      await using registry = this.#openRegistry(reference, options);
      const root = await registry.root(options.signal);
      const all = { ...options, platform, limits: this.#limits };
      const plan = await fetchPlan(registry, root, all);
      const treeId = treeIdOf(plan, this.#variant);
      const tree = path.join(work, "tree");
      await this.#fill(registry, plan, work, all);
      // The name may refer to another image by now. The next pull handles that.
      if (!pulled.layers.includes(this.#folder.treePath(treeId))) return undefined;
      const difference = findDifference(this.#folder.treePath(treeId), tree);
      const isUsed = (): boolean => isMountedTree(digestHex(treeId));
      if (difference !== undefined && !isUsed()) {
        await this.#folder.replaceTree(tree, treeId, isUsed);
      }
      return difference;
    } catch (error) {
      options.signal?.throwIfAborted();
      throw failedTo(`verify image "${formatReference(reference)}"`, writeFailure(error));
    } finally {
      await removeFolder(work);
    }
  }

  #openRegistry(reference: Reference, options: PullOptions): ImageSource & AsyncDisposable {
    const { attempts, proxy } = options;
    return openRegistry(reference, options.registries, {
      retry: { clock: this.#clock, attempts },
      proxy,
    });
  }

  /** Uses the cache if there is one. Pulls again without it if its content was invalid. */
  async #takeCached(
    source: ImageSource,
    reference: Reference,
    options: FetchOptions,
  ): Promise<PulledImage> {
    if (options.cache === undefined) return await this.#take(source, reference, options);
    let hits = 0;
    using shared = BlobCache.public(options.cache);
    using own = BlobCache.private(options.cache, reference);
    const cached = throughCache(source, [shared, own], () => void hits++);
    try {
      return await this.#take(cached, reference, options);
    } catch (error) {
      options.signal?.throwIfAborted();
      if (hits === 0) throw error;
      this.#logger.warn("Could not use the image cache", {
        image: formatReference(reference),
        err: error,
      });
      return await this.#take(source, reference, options);
    }
  }

  /** Downloads what is missing, and makes the name refer to it. */
  async #take(
    source: ImageSource,
    reference: Reference,
    options: FetchOptions,
  ): Promise<PulledImage> {
    const start = this.#clock.monotonic();
    let downloaded = start;
    const root = await source.root(options.signal);
    const key = `${root.digest} ${formatPlatform(options.platform)}${this.#variant}`;
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
      this.#logger.info("Unpacked an image", { image: stored.reference, ...timingsMs });
      for (const note of stored.notes) {
        this.#logger.warn("Left out parts of an image", { image: stored.reference, note });
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
    const treeId = treeIdOf(plan, this.#variant);
    const notes = await this.#queue.run(
      async () => this.#knownNotes(treeId) ?? (await this.#unpack(source, plan, treeId, options)),
      treeId,
      options.signal,
    );
    const image = { id: plan.id, config: plan.config, treeId, sizeBytes: plan.sizeBytes, notes };
    this.#folder.writeRecord("images", key, image);
    return image;
  }

  /** What was left out of a tree when it was unpacked. Undefined if there is no such tree. */
  #knownNotes(treeId: string): readonly string[] | undefined {
    this.#folder.markUsed(treeId, this.#clock.now());
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
      const notes = await this.#fill(source, plan, work, options);
      this.#folder.writeRecord("images", treeId, notes);
      this.#folder.publishTree(tree, treeId);
      return notes;
    } finally {
      await removeFolder(work);
    }
  }

  /** Unpacks an image to `tree` in a work folder. */
  async #fill(
    source: ImageSource,
    plan: ImagePlan,
    work: string,
    options: FetchOptions & { readonly onDownloaded?: () => void },
  ): Promise<readonly string[]> {
    // Loaded on demand, because most pulls find the image in the store and finish without this module.
    const { fetchLayers } = await import("./fetch-layers.ts");
    const tree = path.join(work, "tree");
    makeFolderSync(tree, 0o755);
    return await fetchLayers(source, plan.layers, {
      ...options,
      tree,
      spoolFolder: work,
      limits: this.#limits,
      makesDevices: this.#makesDevices,
    });
  }

  #knownImage(key: string): ImageRecord | undefined {
    const image = read(imageRecord, this.#folder.readRecord("images", key));
    // Mark it as used before checking, so that the collector cannot remove it in between.
    if (image) this.#folder.markUsed(image.treeId, this.#clock.now());
    return image && this.#folder.hasTree(image.treeId) ? image : undefined;
  }

  /**
   * Only the requested name, and its repository with the digest, refer to the image afterwards. Names in the image or layout
   * are ignored (CVE-2026-50195).
   */
  #nameImage(reference: Reference, digest: string, image: string): void {
    const { registry, repository } = reference;
    const names = [formatReference(reference), formatReference({ registry, repository, digest })];
    for (const name of new Set(names)) {
      this.#folder.writeRecord("names", name + this.#variant, { name, digest, image });
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

/** The registries, but without the mirrors of one. Undefined if it has none. */
function withoutMirrors(
  registries: readonly RegistryConfig[],
  host: string,
): readonly RegistryConfig[] | undefined {
  const mirrored = registries.find((registry) => registry.host === host);
  if (!mirrored?.mirrors || mirrored.mirrors.length === 0) return undefined;
  return registries.map((each) => (each === mirrored ? { ...each, mirrors: [] } : each));
}

/** A tree's name is derived from its layers. */
function treeIdOf({ layers }: ImagePlan, variant: string): string {
  return digestOf(layers.map(({ diffId }) => diffId).join("\n") + variant);
}

/** Decodes a record of this version of the store. Any other record counts as missing, and is downloaded again. */
function read<T>(decoder: (value: unknown, path: string) => T, record: unknown): T | undefined {
  if (record === undefined) return undefined;
  try {
    return decoder(record, "");
  } catch {
    return undefined;
  }
}
