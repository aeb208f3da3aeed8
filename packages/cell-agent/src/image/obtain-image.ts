import {
  AgentError,
  type ImageProblem,
  type DesiredContainer,
  type DesiredPod,
} from "@kip/agent-api";
import { errorText, type Clock } from "@kip/base";
import { parseReference, type ImageStore, type Reference, type StoredImage } from "@kip/oci-image";
import { goDuration } from "../state/go-duration.ts";
import type { PodEvents } from "../state/pod-events.ts";
import type { CacheFolder } from "./cache-folder.ts";
import { pullAs } from "./pull-as.ts";

/** An image that is ready, and what it took. */
export interface ObtainedImage {
  readonly image: StoredImage;
  /** Milliseconds of download and of unpacking after it; absent if the image was here. */
  readonly timingsMs?: { readonly pull: number; readonly unpack: number };
}

/**
 * Gets the image of a container by its pull policy, with the kubelet's events, in its words.
 *
 * @throws {AgentError} code `AGENT_IMAGE_FAILED` with its `imageProblem`
 */
export async function obtainImage(
  container: DesiredContainer,
  options: {
    readonly pod: DesiredPod;
    readonly images: Pick<ImageStore, "find" | "pull">;
    readonly cacheFolder?: CacheFolder | undefined;
    readonly events: PodEvents;
    readonly clock: Clock;
    readonly signal: AbortSignal;
  },
): Promise<ObtainedImage> {
  const { events, images, clock } = options;
  const { image: name, name: owner, imagePullPolicy: policy } = container;
  const fail = (
    imageProblem: ImageProblem,
    event: string,
    message: string,
    cause?: unknown,
  ): AgentError => {
    events.warning(event, message, owner);
    return new AgentError("AGENT_IMAGE_FAILED", message, { cause, imageProblem });
  };
  let reference: Reference;
  try {
    reference = parseReference(name);
  } catch (error) {
    const why = `couldn't parse image name: ${errorText(error)}`;
    const message = `Failed to apply default image tag "${name}": ${why}`;
    throw fail("InvalidImageName", "InspectFailed", message, error);
  }
  if (policy !== "Always") {
    const present = await images.find(reference);
    if (present) {
      events.normal("Pulled", `Container image "${name}" already present on machine`, owner);
      return { image: present };
    }
    if (policy === "Never") {
      const message = `Container image "${name}" is not present with pull policy of Never`;
      throw fail("ErrImageNeverPull", "ErrImageNeverPull", message);
    }
  }
  events.normal("Pulling", `Pulling image "${name}"`, owner);
  const begin = clock.monotonic();
  try {
    const image = await pullAs(reference, options);
    const took = goDuration(clock.monotonic() - begin);
    events.normal(
      "Pulled",
      `Successfully pulled image "${name}" in ${took} (${took} including waiting). Image size: ${image.sizeBytes} bytes.`,
      owner,
    );
    return { image, timingsMs: image.timingsMs };
  } catch (error) {
    options.signal.throwIfAborted();
    const message = `Failed to pull image "${name}": ${errorText(error)}`;
    throw fail("ErrImagePull", "Failed", message, error);
  }
}
