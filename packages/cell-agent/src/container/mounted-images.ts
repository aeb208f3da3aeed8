import path from "node:path";
import type { DesiredContainer } from "@kip/agent-api";
import { namesIn } from "@kip/base";
import type { ImageStore, StoredImage } from "@kip/oci-image";
import { mkdirSync } from "node:fs";

/**
 * Mounts the images that a container uses as volumes. Each gets its own upper layer, to which nothing is written, because the
 * container's mount is read-only.
 *
 * @param directory folder for the mounts, which is created
 * @param users file of the pod's user namespace, whose users then own the files
 * @returns the root folder of each image by volume name
 */
export async function mountImages(
  input: {
    readonly container: Pick<DesiredContainer, "mounts">;
    readonly volumeImages: ReadonlyMap<string, StoredImage>;
    readonly dependencies: { readonly images: Pick<ImageStore, "mountRootfs"> };
  },
  directory: string,
  users?: string,
): Promise<ReadonlyMap<string, string>> {
  const roots = new Map<string, string>();
  for (const name of new Set(input.container.mounts.map((mount) => mount.name))) {
    const image = input.volumeImages.get(name);
    if (!image) continue;
    const place = path.join(directory, name);
    mkdirSync(place, { recursive: true });
    const { rootfs } = await input.dependencies.images.mountRootfs(image, place, users);
    roots.set(name, rootfs);
  }
  return roots;
}

/** Removes the mounts of {@link mountImages}. */
export async function unmountImages(
  directory: string,
  images: Pick<ImageStore, "unmountRootfs">,
): Promise<void> {
  for (const name of await namesIn(directory))
    await images.unmountRootfs(path.join(directory, name));
}
