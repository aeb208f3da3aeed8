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
  /** Folder of the store, absolute, without `,`, `:` or `\`. Created if missing. */
  readonly root: string;
  readonly logger: Logger;
  readonly clock: Clock;
  /** Limits for unpacked images. @default {@link defaultUnpackLimits} */
  readonly limits?: Partial<UnpackLimits> | undefined;
  /** Whether to create device nodes of images. Containers get their own `/dev`. @default false */
  readonly makesDevices?: boolean | undefined;
  /** Mounts root file systems. @default mount(8) */
  readonly mount?: Mount | undefined;
}

/** An unpacked image that is ready to run. */
export interface StoredImage {
  /** Digest of the image's configuration. It is the `imageID` in image lists. */
  readonly id: string;
  /**
   * `registry/repository@sha256:…`: the digest that the reference pointed at. It is the index's digest if the reference pointed
   * at an index. It is the `imageID` of a container status.
   */
  readonly repoDigest: string;
  /** The full name that was requested. */
  readonly reference: string;
  readonly config: ImageConfig;
  /** Read-only folders of the root file system, bottom first. `mountRootfs` mounts them. */
  readonly layers: readonly string[];
  /** Sum of the sizes of the blobs, bytes. */
  readonly sizeBytes: number;
  /** What was left out of the image (devices, extended attributes), one sentence each. */
  readonly notes: readonly string[];
}

/** Durations of two consecutive phases, milliseconds. Their sum is the duration of the call. */
export interface PullTimings {
  /** From the call to the last byte from the registry. Unpacking runs at the same time. */
  readonly pull: number;
  /** From the last byte to the finished tree. */
  readonly unpack: number;
}

export type PulledImage = StoredImage & { readonly timingsMs: PullTimings };

/** The progress of a pull. */
export interface PullProgress {
  readonly downloadedBytes: number;
  readonly totalBytes: number;
  readonly layersDone: number;
  readonly layerCount: number;
}

export interface PullOptions {
  /** Registries with credentials or an endpoint of their own. Others are `https://<host>`, without credentials. */
  readonly registries: readonly RegistryConfig[];
  /** @default linux on this machine's architecture */
  readonly platform?: Platform | undefined;
  /** Number of concurrent downloads, 1 or more. @default 4 */
  readonly parallelDownloads?: number | undefined;
  /**
   * A folder of blobs by digest that is used before the registry, see `prefetchImage`. It is used for public images, and for
   * private ones of the repository that is pulled from. Its content is verified. The registry is used where it is invalid or
   * incomplete.
   */
  readonly cache?: string | undefined;
  /** Number of attempts for a request with temporary failures. @default 4 */
  readonly attempts?: number | undefined;
  /** Variables `HTTP_PROXY`, `HTTPS_PROXY`, `NO_PROXY`. @default no proxy */
  readonly proxy?: ProxyVariables | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Called for each piece that arrives, and at the end of each layer. */
  readonly onProgress?: ((progress: PullProgress) => void) | undefined;
}

/**
 * Images on one machine. Several processes may share a store, and may be killed at any moment.
 *
 * Failures of `pull` and `importLayout` are {@link ImageError}s: `IMAGE_NOT_FOUND`, `REGISTRY_UNAUTHORIZED`,
 * `REGISTRY_UNREACHABLE` (retryable), `REGISTRY_RATE_LIMITED` (retryable, `retryAfterMs` if the registry named it),
 * `REGISTRY_TOO_SLOW`, `IMAGE_DIGEST_MISMATCH`, `IMAGE_INVALID`, `IMAGE_UNSAFE_ENTRY`, `IMAGE_LIMIT_EXCEEDED`,
 * `IMAGE_STORE_FULL`, `IMAGE_STORE_FAILED`.
 */
export interface ImageStore {
  /** The image that was last pulled or imported with exactly this name. Never asks a registry. */
  find(reference: Reference): Promise<StoredImage | undefined>;
  /**
   * Asks the registry what the name refers to now, and downloads what is missing. Two pulls of the same image share the work.
   */
  pull(reference: Reference, options: PullOptions): Promise<PulledImage>;
  /**
   * Imports an image from an OCI layout folder under the name `reference`. If the layout has several images, imports the one
   * annotated with the tag or the full name.
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
   * Mounts a writable root file system at `<containerDir>/rootfs`. Changes go to `<containerDir>/upper`. A second call finds
   * the mount and changes nothing. Needs root.
   *
   * @param users file of the user namespace whose users own the files. @default the machine's users
   * @throws {ImageError} code `ROOTFS_MOUNT_FAILED`
   */
  mountRootfs(
    image: StoredImage,
    containerDir: string,
    users?: string,
  ): Promise<{ readonly rootfs: string }>;
  /** Removes the mount and its changes. Does nothing if there is none. */
  unmountRootfs(containerDir: string): Promise<void>;
}

/** The image that a name in the store refers to. */
export interface ListedImage {
  readonly reference: string;
  readonly digest: string;
  readonly id: string;
  readonly sizeBytes: number;
}

/** A store with the operations for its administrator. */
export interface ManagedImageStore extends ImageStore {
  /** All names of images. */
  list(): Promise<readonly ListedImage[]>;
  /** Removes unused images, by age and size. */
  collect(options: CollectOptions): Promise<Collected>;
  /**
   * Downloads an image again and compares every entry with the store. Replaces a tree that differs, unless it is mounted.
   *
   * @returns the first path that differs; undefined if there is none
   */
  verify(reference: Reference, options: PullOptions): Promise<string | undefined>;
}
