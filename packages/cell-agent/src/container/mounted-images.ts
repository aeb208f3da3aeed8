import path from "node:path";
import type { DesiredContainer } from "@kip/agent-api";
import { namesIn } from "@kip/base";
import type { ImageStore, StoredImage } from "@kip/oci-image";
import { mkdirSync } from "node:fs";

/**
 * Mounts the images that a container has as volumes, each with a layer of its own that nothing is written to: the container's
 * mount of it is read-only.
 *
 * @param directory takes them; made
 * @param users file of the namespace of the pod's own users: they own the files then
 * @returns the root of each by the volume's name
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

/** Takes the mounts of {@link mountImages} away. */
export async function unmountImages(
  directory: string,
  images: Pick<ImageStore, "unmountRootfs">,
): Promise<void> {
  for (const name of await namesIn(directory))
    await images.unmountRootfs(path.join(directory, name));
}
