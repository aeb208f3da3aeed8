export {
  startImageCache,
  type ImageCacheOptions,
  type ImageCacheSettings,
  type RunningImageCache,
} from "./image-cache.ts";
