import type { DesiredRegistry, ImagePull, PodReport } from "@kip/agent-api";
import type { LaunchImages } from "@kip/cloud";
import type { Pod } from "@kip/k8s-types";
import type { ResolvedPod } from "@kip/virtual-kubelet";
import { imagesOf } from "./desired-pod.ts";
import { mergeRegistries, referenceOf, registriesOf } from "./registries.ts";

/** More names than this are not remembered; those that were seen last are. */
const maxNames = 1000;

/**
 * What image names have meant of late, by what cells reported. Only a hint for clouds that can have images ready: which
 * image a pod gets is decided on its cell.
 */
export class KnownImages {
  /** Image name as pods have it → name with digest. */
  readonly #digests = new Map<string, string>();

  /** What a cell says of its own pod's images. Of others it is not believed, nor that one comes from elsewhere. */
  learn(report: PodReport | undefined, pod: Pod | undefined): void {
    if (!report || !pod) return;
    const own = new Set(imagesOf(pod));
    for (const { image, imageId } of [...report.initContainers, ...report.containers]) {
      if (imageId === undefined || !own.has(image) || !isOf(imageId, image)) continue;
      this.#digests.delete(image); // the newest are last
      this.#digests.set(image, imageId);
    }
    for (const image of this.#digests.keys()) {
      if (this.#digests.size <= maxNames) break;
      this.#digests.delete(image);
    }
  }

  /**
   * The images of a pod, if all of them are known and anybody may pull them: a cell that has them ready might run the pod
   * of somebody who may not.
   */
  imagesOf(
    { pod, pullSecrets }: ResolvedPod,
    { registries: own, proxy }: ImagePull,
  ): LaunchImages | undefined {
    const found = imagesOf(pod).map((image) => this.#digests.get(image));
    const references = [...new Set(found)].filter((reference) => reference !== undefined);
    if (references.length === 0 || found.includes(undefined)) return undefined;
    const hosts = new Set(registriesOf(references));
    const registries = mergeRegistries(references, { pullSecrets, own });
    if (registries.some((registry) => hosts.has(registry.host) && !isOpen(registry)))
      return undefined;
    const pull: ImagePull = { registries: own.filter(isOpen), ...(proxy && { proxy }) };
    return { references, pull: JSON.stringify(pull) };
  }
}

/** Whether an image named by its digest is of the repository that the other name is of. */
function isOf(withDigest: string, image: string): boolean {
  const found = referenceOf(withDigest);
  const named = referenceOf(image);
  const isSame = found?.registry === named?.registry && found?.repository === named?.repository;
  return isSame && found?.digest !== undefined;
}

function isOpen({ username, accounts }: DesiredRegistry): boolean {
  return username === undefined && accounts === undefined;
}
