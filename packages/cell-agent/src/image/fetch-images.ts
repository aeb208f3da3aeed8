import type { ImagePull } from "@kip/agent-api";
import type { Clock, Logger } from "@kip/base";

/**
 * Fetches images into the store of this machine's agent, before it has a pod. They are only stored by digest, because the
 * registry has to decide each time which image a tag means.
 *
 * @throws {CodedError} like `ImageStore.pull` of `@kip/oci-image`
 */
export async function fetchImages(options: {
  /** Names with a digest. */
  readonly images: readonly string[];
  readonly pull: ImagePull;
  /** The agent's image folder: `AgentDirectories.images`. */
  readonly directory: string;
  readonly logger: Logger;
  readonly clock: Clock;
}): Promise<void> {
  const { images, pull, directory: root, logger, clock } = options;
  const { openImageStore, parseReference } = await import("@kip/oci-image");
  const store = await openImageStore({ root, logger, clock });
  for (const image of images) await store.pull(parseReference(image), pull);
}
