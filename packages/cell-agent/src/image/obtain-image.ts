import type { DesiredContainer, DesiredPod } from "@kip/agent-api";
import { errorText, KipError, type Clock } from "@kip/base";
import { parseReference, type ImageStore, type Reference, type StoredImage } from "@kip/oci-image";
import type { PodEvents } from "../pod/pod-events.ts";

/** An image that is ready, and what it took. */
export interface ObtainedImage {
  readonly image: StoredImage;
  /** Milliseconds of download and of unpacking after it; absent if the image was here. */
  readonly timingsMs?: { readonly pull: number; readonly unpack: number };
}

/**
 * Gets the image of a container by its pull policy, with the kubelet's events.
 *
 * @throws {KipError} code `AGENT_IMAGE_FAILED` with fact `reason`: `ErrImagePull`,
 * `ErrImageNeverPull` or `InvalidImageName`
 */
export async function obtainImage(
  container: DesiredContainer,
  options: {
    readonly pod: DesiredPod;
    readonly images: Pick<ImageStore, "find" | "pull">;
    readonly events: PodEvents;
    readonly clock: Clock;
    readonly signal: AbortSignal;
  },
): Promise<ObtainedImage> {
  const { events, images, clock } = options;
  const { image: name, name: owner, imagePullPolicy: policy } = container;
  const reference = readName(name);
  if (policy !== "Always") {
    const present = await images.find(reference);
    if (present) {
      events.normal("Pulled", `Container image "${name}" already present on machine`, owner);
      return { image: present };
    }
    if (policy === "Never") {
      throw failed(
        "ErrImageNeverPull",
        `Container image "${name}" is not present with pull policy of Never`,
      );
    }
  }
  events.normal("Pulling", `Pulling image "${name}"`, owner);
  const begin = clock.monotonic();
  try {
    const registries = options.pod.registries;
    const image = await images.pull(reference, { registries, signal: options.signal });
    const took = duration(clock.monotonic() - begin);
    events.normal(
      "Pulled",
      `Successfully pulled image "${name}" in ${took} (${took} including waiting). Image size: ${image.sizeBytes} bytes.`,
      owner,
    );
    return { image, timingsMs: image.timingsMs };
  } catch (error) {
    throw failed("ErrImagePull", `Failed to pull image "${name}": ${errorText(error)}`, error);
  }
}

function readName(name: string): Reference {
  try {
    return parseReference(name);
  } catch (error) {
    throw failed(
      "InvalidImageName",
      `Failed to apply default image tag "${name}": couldn't parse image name: ${errorText(error)}`,
      error,
    );
  }
}

function failed(reason: string, message: string, cause?: unknown): KipError {
  return new KipError("AGENT_IMAGE_FAILED", message, {
    cause,
    facts: { reason },
  });
}

/** A duration as Go prints it to three digits: `850ms`, `1.204s`. */
function duration(ms: number): string {
  return ms < 1000 ? `${Math.round(ms)}ms` : `${Number((ms / 1000).toFixed(3))}s`;
}
