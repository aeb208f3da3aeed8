// The functions and classes that programs need, and all types in their signatures.

// Names
export { hostPlatform, parsePlatform, type Platform } from "./platform.ts";
export { formatReference, parseReference, type Reference } from "./reference.ts";

// Failures
export { ImageError, type ImageErrorCode } from "./errors.ts";

// Registries
export type { ProxyVariables } from "./registry/http-exchange.ts";
export {
  dockerConfigCredentials,
  type CredentialSource,
  type RegistryCredentials,
} from "./registry/credentials.ts";
export { pushLayout, type PushOptions } from "./registry/push-layout.ts";
export type { RegistryConfig } from "./registry/registry-config.ts";

// The store
export type { ImageConfig } from "./image-config.ts";
export type { Collected, CollectOptions } from "./store/collect.ts";
export { openImageStore } from "./store/fs-image-store.ts";
export type {
  ImageStore,
  ImageStoreOptions,
  ListedImage,
  ManagedImageStore,
  PulledImage,
  PullOptions,
  PullProgress,
  PullTimings,
  StoredImage,
} from "./store/image-store.ts";
export type { UnpackLimits } from "./unpack/limits.ts";

// A cache that machines share
export {
  collectCache,
  type CollectCacheOptions,
  type CollectedCache,
} from "./store/collect-cache.ts";
export type { Prefetched } from "./store/fill-cache.ts";
export { prefetchImage, type PrefetchOptions } from "./store/prefetch-image.ts";
export { markCachedImage, type CachedImage } from "./store/use-cached.ts";

// Root file systems
export { mountOverlay, type OverlayPlaces } from "./rootfs/mount-rootfs.ts";
export { resolveUser, type ResolvedUser } from "./rootfs/resolve-user.ts";
