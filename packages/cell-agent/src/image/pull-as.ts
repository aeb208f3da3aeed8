import { registryLogIns, type DesiredPod } from "@kip/agent-api";
import {
  ImageError,
  type ImageStore,
  type PulledImage,
  type PullOptions,
  type Reference,
} from "@kip/oci-image";
import type { CacheFolder } from "./cache-folder.ts";

/**
 * Pulls an image with the pod's registry settings. If there are several accounts for its registry, tries the next one after a
 * refusal. If all fail, throws the first error.
 *
 * @throws {ImageError} like `ImageStore.pull`
 */
export async function pullAs(
  reference: Reference,
  options: {
    readonly pod: Pick<DesiredPod, "registries" | "images">;
    readonly images: Pick<ImageStore, "pull">;
    readonly cacheFolder?: CacheFolder | undefined;
    readonly signal: AbortSignal;
  },
): Promise<PulledImage> {
  const { pod, images, signal } = options;
  const { cache: wanted, proxy } = pod.images ?? {};
  const cache = wanted && (await options.cacheFolder?.(wanted));
  const settings: Omit<PullOptions, "registries"> = {
    signal,
    cache,
    proxy,
  };
  const [first = [], ...others] = registryLogIns(pod.registries, reference);
  try {
    return await images.pull(reference, { ...settings, registries: first });
  } catch (error) {
    signal.throwIfAborted();
    // Registries do not reveal to unauthorized clients whether an image exists.
    if (!ImageError.is(error, "REGISTRY_UNAUTHORIZED", "IMAGE_NOT_FOUND")) throw error;
    for (const registries of others) {
      const pulled = await images.pull(reference, { ...settings, registries }).catch(() => {});
      signal.throwIfAborted();
      if (pulled) return pulled;
    }
    throw error;
  }
}
