export type { ImageConfig } from "./image-config.ts";
export { formatPlatform, hostPlatform, type Platform } from "./platform.ts";
export type { ProxyVariables } from "./registry/http-exchange.ts";
export { formatReference, parseReference, type Reference } from "./reference.ts";
export {
  dockerConfigCredentials,
  firstCredentials,
  helperCredentials,
  type CredentialSource,
  type RegistryCredentials,
} from "./registry/credentials.ts";
export { pushLayout } from "./registry/push-layout.ts";
export type { RegistryConfig } from "./registry/registry-config.ts";
export { resolveUser, type ResolvedUser } from "./rootfs/resolve-user.ts";
export { mountOverlay, unmountOverlay, type OverlayPlaces } from "./rootfs/mount-rootfs.ts";
export type { Collected, CollectOptions } from "./store/collect.ts";
export { openImageStore } from "./store/fs-image-store.ts";
export { prefetchImage } from "./store/prefetch-image.ts";
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
export { defaultUnpackLimits, type UnpackLimits } from "./unpack/limits.ts";
export { ImageError, type ImageErrorCode } from "./errors.ts";
