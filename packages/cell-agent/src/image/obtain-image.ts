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

/** An available image, and the time it took. */
export interface ObtainedImage {
  readonly image: StoredImage;
  /** Milliseconds of the download, and of unpacking after it. Absent if the image was already in the store. */
  readonly timingsMs?: { readonly pull: number; readonly unpack: number };
}

/** An image that the pod needs. */
export interface WantedImage {
  readonly image: string;
  readonly imagePullPolicy: DesiredContainer["imagePullPolicy"];
  /** Its container. Absent for a volume of the pod. */
  readonly name?: string | undefined;
}

/** Options of {@link obtainImage}. */
export interface ObtainOptions {
  readonly pod: DesiredPod;
  readonly images: Pick<ImageStore, "find" | "pull">;
  /** @default no cache */
  readonly cacheFolder?: CacheFolder | undefined;
  readonly events: PodEvents;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/**
 * Obtains an image by its pull policy, with the kubelet's events and words.
 *
 * @throws {AgentError} code `AGENT_IMAGE_FAILED` with its `imageProblem`
 */
export async function obtainImage(
  wanted: WantedImage,
  options: ObtainOptions,
): Promise<ObtainedImage> {
  const { events, images } = options;
  const { image: name, name: owner, imagePullPolicy: policy } = wanted;
  const reference = referenceOf(wanted, events);
  if (policy !== "Always") {
    const present = await images.find(reference);
    if (present) {
      events.normal("Pulled", `Container image "${name}" already present on machine`, owner);
      return { image: present };
    }
    if (policy === "Never") {
      const message = `Container image "${name}" is not present with pull policy of Never`;
      events.warning("ErrImageNeverPull", message, owner);
      throw failed("ErrImageNeverPull", message);
    }
  }
  return await pull(reference, wanted, options);
}

function referenceOf({ image, name: owner }: WantedImage, events: PodEvents): Reference {
  try {
    return parseReference(image);
  } catch (error) {
    const why = `couldn't parse image name: ${errorText(error)}`;
    const message = `Failed to apply default image tag "${image}": ${why}`;
    events.warning("InspectFailed", message, owner);
    throw failed("InvalidImageName", message, error);
  }
}

async function pull(
  reference: Reference,
  { image: name, name: owner }: WantedImage,
  options: ObtainOptions,
): Promise<ObtainedImage> {
  const { events, clock, signal } = options;
  events.normal("Pulling", `Pulling image "${name}"`, owner);
  const begin = clock.monotonic();
  try {
    const image = await pullAs(reference, options);
    const took = goDuration(clock.monotonic() - begin);
    const size = `Image size: ${image.sizeBytes} bytes.`;
    const message = `Successfully pulled image "${name}" in ${took} (${took} including waiting). ${size}`;
    events.normal("Pulled", message, owner);
    return { image, timingsMs: image.timingsMs };
  } catch (error) {
    signal.throwIfAborted();
    const message = `Failed to pull image "${name}": ${errorText(error)}`;
    events.warning("Failed", message, owner);
    throw failed("ErrImagePull", message, error);
  }
}

function failed(imageProblem: ImageProblem, message: string, cause?: unknown): AgentError {
  return new AgentError("AGENT_IMAGE_FAILED", message, { cause, imageProblem });
}
