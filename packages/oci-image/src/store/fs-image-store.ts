import type { ImageStore, ImageStoreOptions } from "./image-store.ts";

/** Opens the store at `root`, making it if it is missing. */
export async function openImageStore(_options: ImageStoreOptions): Promise<ImageStore> {
  throw new Error("not yet");
}
