import type { ImagePull } from "@kip/agent-api";
import type { Clock, Logger } from "@kip/base";

/**
 * Puts images where the agent of this machine will find them, before it has a pod. Only their digests come to stand for
 * them: which image a tag means is for the registry to say, each time.
 *
 * @throws {CodedError} as `ImageStore.pull` of `@kip/oci-image`
 */
export async function fetchImages(options: {
  /** Names with a digest. */
  readonly images: readonly string[];
  readonly pull: ImagePull;
  /** The agent's: `AgentDirectories.images`. */
  readonly directory: string;
  readonly logger: Logger;
  readonly clock: Clock;
}): Promise<void> {
  const { images, pull, directory: root, logger, clock } = options;
  const { openImageStore, parseReference } = await import("@kip/oci-image");
  const store = await openImageStore({ root, logger, clock });
  for (const image of images) await store.pull(parseReference(image), pull);
}
