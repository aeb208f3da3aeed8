import { AgentError, type DesiredContainer, type DesiredPod } from "@kip/agent-api";
import { errorText } from "@kip/base";
import type { StoredImage } from "@kip/oci-image";
import { obtainImage, type WantedImage } from "../image/obtain-image.ts";
import { nextAttempt } from "../state/container-record.ts";
import { present, recordOf, type Executor } from "./step-tools.ts";

/** Obtains the image of a container, and those of the volumes that it mounts. The plan delays the next attempt. */
export const pull: Executor<"pull"> = async ({ container, image: name }, context, tools) => {
  const { state, signal } = context;
  const { events, clock, dependencies } = tools;
  const { images, cacheFolder } = dependencies;
  const pod = present(state().desired);
  const record = recordOf(state(), container);
  const attempt = nextAttempt(record);
  context.change({ kind: "pullBegun", container });
  const options = { pod, images, cacheFolder, events, clock, signal };
  const volumes = new Map<string, StoredImage>();
  let volumeImage: string | undefined;
  try {
    const { image, timingsMs } = await obtainImage(record.desired, options);
    for (const wanted of mountedImages(pod, record.desired)) {
      volumeImage = wanted.image;
      volumes.set(wanted.volume, (await obtainImage(wanted, options)).image);
    }
    const monotonicMs = clock.monotonic();
    return { kind: "imageReady", container, name, image, volumes, attempt, timingsMs, monotonicMs };
  } catch (error) {
    if (signal.aborted) return undefined;
    const problem = AgentError.is(error) ? error.imageProblem : undefined;
    const reason = problem ?? "ErrImagePull";
    events.warning("Failed", `Error: ${reason}`, container);
    const message = errorText(error);
    const nowMs = clock.now();
    return { kind: "imageFailed", container, name, volumeImage, reason, message, nowMs };
  }
};

/** The images that a container mounts, without duplicates. */
function mountedImages(
  { volumes }: DesiredPod,
  { mounts }: DesiredContainer,
): readonly (WantedImage & { readonly volume: string })[] {
  const mounted = new Set(mounts.map((mount) => mount.name));
  return volumes
    .filter(({ name, kind }) => kind === "image" && mounted.has(name))
    .map(({ name, image = "", imagePullPolicy = "IfNotPresent" }) => ({
      volume: name,
      image,
      imagePullPolicy,
    }));
}
