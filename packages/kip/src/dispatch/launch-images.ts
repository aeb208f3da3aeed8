import type { DesiredRegistry, ImagePull, PodReport } from "@kip/agent-api";
import type { LaunchImages } from "@kip/cloud";
import type { ResolvedPod } from "@kip/virtual-kubelet";
import { imagesOf } from "./desired-pod.ts";
import { mergeRegistries, registriesOf } from "./registries.ts";

/** More names than this are not remembered; those that were seen last are. */
const maxNames = 1000;

/**
 * What image names have meant of late, by what cells reported. Only a hint for clouds that can have images ready: which
 * image a pod gets is decided on its cell.
 */
export class KnownImages {
  /** Image name as pods have it → name with digest. */
  readonly #digests = new Map<string, string>();

  learn(report: PodReport | undefined): void {
    if (!report) return;
    for (const { image, imageId } of [...report.initContainers, ...report.containers]) {
      if (!imageId?.includes("@sha256:")) continue;
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
    const hosts = registriesOf(references);
    const registries = mergeRegistries(references, { pullSecrets, own });
    if (registries.some((registry) => hosts.includes(registry.host) && !isOpen(registry)))
      return undefined;
    const pull: ImagePull = { registries: own.filter(isOpen), ...(proxy && { proxy }) };
    return { references, pull: JSON.stringify(pull) };
  }
}

function isOpen({ username, accounts }: DesiredRegistry): boolean {
  return username === undefined && accounts === undefined;
}
