import type { Clock, Logger, Mount } from "@kip/base";
import type { ImageConfig } from "../image-config.ts";
import type { Platform } from "../platform.ts";
import type { Reference } from "../reference.ts";
import type { ProxyVariables } from "../registry/http-exchange.ts";
import type { RegistryConfig } from "../registry/registry-config.ts";
import type { UnpackLimits } from "../unpack/limits.ts";
import type { Collected, CollectOptions } from "./collect.ts";

/** Options of {@link openImageStore}. */
export interface ImageStoreOptions {
  /** Folder of the store, absolute, without `,`, `:` or `\`; made if it is missing. */
  readonly root: string;
  readonly logger: Logger;
  readonly clock: Clock;
  /** What an image may be at most once unpacked. @default {@link defaultUnpackLimits} */
  readonly limits?: Partial<UnpackLimits> | undefined;
  /** Whether device nodes of images are made. Containers get their own `/dev`. @default false */
  readonly makesDevices?: boolean | undefined;
  /** Mounts the root file systems. @default by mount(8) */
  readonly mount?: Mount | undefined;
}

/** An image that is unpacked and ready to run. */
export interface StoredImage {
  /** Digest of the image's configuration; the `imageID` of image listings. */
  readonly id: string;
  /**
   * `registry/repository@sha256:…`: what the reference pointed at, so the index's digest if it
   * pointed at an index. The `imageID` of a container status.
   */
  readonly repoDigest: string;
  /** The name it was asked by, in full. */
  readonly reference: string;
  readonly config: ImageConfig;
  /** Read-only folders that make the root file system, bottom first. Mount them by `mountRootfs`. */
  readonly layers: readonly string[];
  /** Sum of the sizes of the blobs, bytes. */
  readonly sizeBytes: number;
  /** What the image has and we left out (devices, extended attributes), a sentence each. */
  readonly notes: readonly string[];
}

/** Milliseconds. The two follow each other: their sum is the whole call. */
export interface PullTimings {
  /** From the call to the last byte from the registry; unpacking runs at the same time. */
  readonly pull: number;
  /** From the last byte to the finished tree. */
  readonly unpack: number;
}

export type PulledImage = StoredImage & { readonly timingsMs: PullTimings };

/** How far a pull is. */
export interface PullProgress {
  readonly downloadedBytes: number;
  readonly totalBytes: number;
  readonly layersDone: number;
  readonly layerCount: number;
}

export interface PullOptions {
  /** Registries with credentials or an endpoint of their own; others are `https://<host>`, anonymous. */
  readonly registries: readonly RegistryConfig[];
  /** @default linux on this machine's architecture */
  readonly platform?: Platform | undefined;
  /** Layers that arrive at the same time, 1 or more. @default 4 */
  readonly parallelDownloads?: number | undefined;
  /**
   * A folder of blobs by digest that is asked before the registry, see `prefetchImage`: for public images, and for
   * those of the repository that is pulled from. What is in it is checked; where it is wrong or lacks something, the
   * registry is asked.
   */
  readonly cache?: string | undefined;
  /** Times a request that fails in passing is made in all. @default 4 */
  readonly attempts?: number | undefined;
  /** Variables `HTTP_PROXY`, `HTTPS_PROXY`, `NO_PROXY`. @default no proxy */
  readonly proxy?: ProxyVariables | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Called for each piece that arrives, and at the end of each layer. */
  readonly onProgress?: ((progress: PullProgress) => void) | undefined;
}

/**
 * Images on one machine. Safe to share by several processes, and to be killed at any moment.
 *
 * Failures of `pull` and `importLayout` are {@link ImageError}s: `IMAGE_NOT_FOUND`,
 * `REGISTRY_UNAUTHORIZED`, `REGISTRY_UNREACHABLE` (retryable), `REGISTRY_RATE_LIMITED` (retryable,
 * `retryAfterMs` if the registry said), `REGISTRY_TOO_SLOW`, `IMAGE_DIGEST_MISMATCH`, `IMAGE_INVALID`,
 * `IMAGE_UNSAFE_ENTRY`, `IMAGE_LIMIT_EXCEEDED`, `IMAGE_STORE_FULL`, `IMAGE_STORE_FAILED`.
 */
export interface ImageStore {
  /** The image that was last pulled or imported by this very name; never asks a registry. */
  find(reference: Reference): Promise<StoredImage | undefined>;
  /**
   * Asks the registry what the name means now, and fetches what is not here yet. Two pulls of the
   * same image share the work.
   */
  pull(reference: Reference, options: PullOptions): Promise<PulledImage>;
  /**
   * Takes an image from an OCI layout folder, known by `reference` from then on. A layout of
   * several images is asked for the one annotated with the tag or the full name.
   */
  importLayout(
    layoutDir: string,
    reference: Reference,
    options?: {
      readonly platform?: Platform | undefined;
      readonly signal?: AbortSignal | undefined;
    },
  ): Promise<StoredImage>;
  /**
   * Mounts a writable root file system at `<containerDir>/rootfs`; what is written goes to
   * `<containerDir>/upper`. A second call finds the mount and changes nothing. Needs root.
   *
   * @param users file of the user namespace whose users the files are to belong to. @default the machine's
   * @throws {ImageError} code `ROOTFS_MOUNT_FAILED`
   */
  mountRootfs(
    image: StoredImage,
    containerDir: string,
    users?: string,
  ): Promise<{ readonly rootfs: string }>;
  /** Takes the mount and what was written away; fine if there is none. */
  unmountRootfs(containerDir: string): Promise<void>;
}

/** What a name in the store stands for. */
export interface ListedImage {
  readonly reference: string;
  readonly digest: string;
  readonly id: string;
  readonly sizeBytes: number;
}

/** A store with the operations of its administrator. */
export interface ManagedImageStore extends ImageStore {
  /** The names that stand for an image. */
  list(): Promise<readonly ListedImage[]>;
  /** Removes what is not used, by age and size. */
  collect(options: CollectOptions): Promise<Collected>;
  /**
   * Fetches an image again and compares every entry with what is in the store. A tree that differs
   * is replaced, unless it is mounted.
   *
   * @returns the first path that differs; undefined if all is as it must be
   */
  verify(reference: Reference, options: PullOptions): Promise<string | undefined>;
}
