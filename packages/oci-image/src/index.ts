export type { ImageConfig } from "./image-config.ts";
export type { Platform } from "./platform.ts";
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
export { openImageStore } from "./store/fs-image-store.ts";
export type {
  ImageStore,
  ImageStoreOptions,
  PulledImage,
  PullOptions,
  PullProgress,
  PullTimings,
  StoredImage,
} from "./store/image-store.ts";
export { defaultUnpackLimits, type UnpackLimits } from "./unpack/limits.ts";
