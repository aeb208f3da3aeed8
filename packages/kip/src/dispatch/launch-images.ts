import type { DesiredRegistry, ImagePull, ReportedPod } from "@kip/agent-api";
import type { LaunchImages } from "@kip/cloud";
import type { Pod } from "@kip/k8s-types";
import type { ResolvedPod } from "@kip/virtual-kubelet";
import { imagesOf } from "./desired-pod.ts";
import { mergeRegistries, referenceOf, registriesOf } from "./registries.ts";

/** Maximum number of names. The oldest are dropped. */
const maxNames = 1000;

/**
 * The digests that cells recently reported for image names. With them, kip can tell the cloud which images a launched machine
 * may have ready. This is only a hint for clouds that prepare images: a pod's cell decides which image it uses.
 */
export class KnownImages {
  /** Image name as written in pods → name with digest. */
  readonly #digests = new Map<string, string>();

  /**
   * Learns the digests of the pod's own images from its cell. Ignores other images and other repositories.
   *
   * @returns whether a name has another digest than before
   */
  learn(report: ReportedPod | undefined, pod: Pod | undefined): boolean {
    if (!report || !pod) return false;
    let isNew = false;
    const own = new Set(imagesOf(pod));
    for (const { image, imageId } of [...report.initContainers, ...report.containers]) {
      if (imageId === undefined || !own.has(image) || !isOf(imageId, image)) continue;
      isNew ||= this.#digests.get(image) !== imageId;
      this.#digests.delete(image); // the newest are last
      this.#digests.set(image, imageId);
    }
    for (const image of this.#digests.keys()) {
      if (this.#digests.size <= maxNames) break;
      this.#digests.delete(image);
    }
    return isNew;
  }

  /**
   * The images of a pod, if all of them are known and public. A cell that has them ready may run another user's pod, which may
   * not have access to a private image.
   */
  imagesOf(
    { pod, pullSecrets }: ResolvedPod,
    {
      registries: own,
      proxy,
    }: {
      readonly registries: ImagePull["registries"];
      readonly proxy?: ImagePull["proxy"] | undefined;
    },
  ): LaunchImages | undefined {
    const found = imagesOf(pod).map((image) => this.#digests.get(image));
    const references = [...new Set(found)].filter((reference) => reference !== undefined);
    if (references.length === 0 || found.includes(undefined)) return undefined;
    const hosts = new Set(registriesOf(references));
    const registries = mergeRegistries(references, { pullSecrets, own });
    if (registries.some((registry) => hosts.has(registry.host) && !isOpen(registry)))
      return undefined;
    const pull: ImagePull = { registries: own.filter(isOpen), proxy };
    return { references, pull: JSON.stringify(pull) };
  }
}

/** Whether the image with a digest is from the same repository as the other name. */
function isOf(withDigest: string, image: string): boolean {
  const found = referenceOf(withDigest);
  const named = referenceOf(image);
  const isSame = found?.registry === named?.registry && found?.repository === named?.repository;
  return isSame && found?.digest !== undefined;
}

function isOpen({ username, accounts }: DesiredRegistry): boolean {
  return username === undefined && accounts === undefined;
}
